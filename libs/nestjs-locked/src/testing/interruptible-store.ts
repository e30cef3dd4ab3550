import { LockStoreError } from '../core/lock.errors.js';
import type { LockInspector } from '../core/store/lock-inspector.js';
import type {
  AcquireCommand,
  AcquireReply,
  AdoptCommand,
  AdoptReply,
  LeaveCommand,
  LeaveReply,
  LockStore,
  RecheckCommand,
  RecheckReply,
  ReleaseCommand,
  ReleaseReply,
  RenewCommand,
  RenewReply,
  RequeueCommand,
  RequeueReply,
  StoreListener,
  TakeBackCommand,
  TakeBackReply,
  Unknown,
} from '../core/store/lock-store.js';
import type { InMemoryLockStore } from './in-memory-lock-store.js';

/** The line to the store, which a test can cut. The store keeps its state, and leases expire meanwhile. */
export class StoreLine {
  readonly #listeners = new Set<StoreListener>();
  #isDown = false;

  get isDown(): boolean {
    return this.#isDown;
  }

  cut(): void {
    if (this.#isDown) return;
    this.#isDown = true;
    for (const listener of this.#listeners) tellCut(listener);
  }

  mend(): void {
    if (!this.#isDown) return;
    this.#isDown = false;
    for (const listener of this.#listeners) {
      listener.storeBack();
      listener.reconnected();
    }
  }

  /** @returns a function that removes the listener */
  listen(listener: StoreListener): () => void {
    this.#listeners.add(listener);
    if (this.#isDown) tellCut(listener);
    return () => this.#listeners.delete(listener);
  }
}

function tellCut(listener: StoreListener): void {
  listener.inboxLost();
  listener.storeLost(unanswered().cause);
}

/** The in-memory store behind a line. While the line is cut, every command fails and no message arrives. */
export class InterruptibleStore implements LockStore {
  readonly address = 'TestLocks';
  readonly processId: string;
  readonly commandTimeoutMs: number;
  readonly inspector: LockInspector;
  readonly #store: InMemoryLockStore;
  readonly #line: StoreLine;
  readonly #opensDown: boolean;
  #stopListening: () => void = () => {};

  /** @param opensDown whether it can be opened while the line is cut */
  constructor(store: InMemoryLockStore, line: StoreLine, opensDown: boolean) {
    this.#store = store;
    this.#line = line;
    this.#opensDown = opensDown;
    this.processId = store.processId;
    this.commandTimeoutMs = store.commandTimeoutMs;
    this.inspector = interruptibleInspector(store.inspector, line);
  }

  listensFor(key: string): boolean {
    return this.#store.listensFor(key) && !this.#line.isDown;
  }

  async open(listener: StoreListener): Promise<void> {
    if (!this.#opensDown) assertUp(this.#line);
    const message: StoreListener['message'] = (it) => {
      if (!this.#line.isDown) listener.message(it);
    };
    this.#stopListening = this.#line.listen(listener);
    await this.#store.open({ ...silent, message });
  }

  async close(): Promise<void> {
    this.#stopListening();
    await this.#store.close();
  }

  async acquire(command: AcquireCommand): Promise<AcquireReply> {
    return this.#line.isDown ? unanswered() : this.#store.acquire(command);
  }

  async acquireTogether(commands: readonly AcquireCommand[]): Promise<readonly AcquireReply[]> {
    return this.#line.isDown ? commands.map(unanswered) : this.#store.acquireTogether(commands);
  }

  async recheck(command: RecheckCommand): Promise<RecheckReply> {
    return this.#line.isDown ? unanswered() : this.#store.recheck(command);
  }

  renew(commands: readonly RenewCommand[]): readonly Promise<RenewReply>[] {
    return this.#line.isDown ? commands.map(async () => unanswered()) : this.#store.renew(commands);
  }

  async adopt(command: AdoptCommand): Promise<AdoptReply> {
    return this.#line.isDown ? unanswered() : this.#store.adopt(command);
  }

  async release(command: ReleaseCommand): Promise<ReleaseReply> {
    return this.#line.isDown ? unanswered() : this.#store.release(command);
  }

  async requeue(command: RequeueCommand): Promise<RequeueReply> {
    return this.#line.isDown ? unanswered() : this.#store.requeue(command);
  }

  async leave(command: LeaveCommand): Promise<LeaveReply> {
    return this.#line.isDown ? unanswered() : this.#store.leave(command);
  }

  takeBack(commands: readonly TakeBackCommand[]): readonly Promise<TakeBackReply>[] {
    return this.#line.isDown
      ? commands.map(async () => unanswered())
      : this.#store.takeBack(commands);
  }
}

/** The in-memory store reports nothing but messages. */
const silent: StoreListener = {
  message: () => {},
  reconnected: () => {},
  inboxLost: () => {},
  storeLost: () => {},
  storeBack: () => {},
  mayEvict: () => {},
};

function interruptibleInspector(inspector: LockInspector, line: StoreLine): LockInspector {
  return {
    async inspect(key, mostWaiting) {
      assertUp(line);
      return inspector.inspect(key, mostWaiting);
    },
    async *list(pattern) {
      assertUp(line);
      yield* inspector.list(pattern);
    },
    async survey(patterns, most) {
      assertUp(line);
      return inspector.survey(patterns, most);
    },
    async revoke(key, value) {
      assertUp(line);
      return inspector.revoke(key, value);
    },
    async ping() {
      assertUp(line);
      await inspector.ping();
    },
    async evictionPolicy() {
      assertUp(line);
      return inspector.evictionPolicy();
    },
    async ask(key, id) {
      assertUp(line);
      return inspector.ask(key, id);
    },
    async answer(question, text) {
      assertUp(line);
      await inspector.answer(question, text);
    },
  };
}

function assertUp(line: StoreLine): void {
  if (line.isDown) throw unanswered().cause;
}

/** The answer while a connection is known to be down: the command was not sent. */
function unanswered(): Unknown {
  const cause = new LockStoreError(
    'the store is down: the test has called storeDown(); storeUp() ends it',
  );
  return { kind: 'unknown', cause, neverRan: true };
}
