import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockInspector } from '../../libs/nestjs-locked/src/core/store/lock-inspector.js';
import type {
  AcquireCommand,
  AdoptCommand,
  LeaveCommand,
  LockStore,
  RecheckCommand,
  ReleaseCommand,
  RenewCommand,
  RequeueCommand,
  StoreListener,
  StoreMessage,
  TakeBackCommand,
  Unknown,
} from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import type { Clock } from '../../libs/nestjs-locked/src/core/time/clock.js';

const unknown: Unknown = { kind: 'unknown', cause: new LockStoreError('no answer') };
const undone: Unknown = { ...unknown, neverRan: true };

/**
 * A store on an unreliable network: slow, sometimes silent, with lost replies and messages. Order is kept, as by TCP.
 */
export class UnreliableStore implements LockStore {
  readonly processId: string;
  readonly commandTimeoutMs = 700;
  readonly inspector: LockInspector;
  readonly #inner: LockStore;
  readonly #clock: Clock;
  readonly #random: () => number;
  #listener: StoreListener | undefined;
  #sentUntil = 0;
  #repliedUntil = 0;
  #toldUntil = 0;
  /** Nothing passes before this time. */
  silentUntil = 0;
  /** Whether commands are refused without being executed. */
  refusing = false;
  isReliable = false;

  constructor(inner: LockStore, clock: Clock, random: () => number) {
    this.#inner = inner;
    this.#clock = clock;
    this.#random = random;
    this.processId = inner.processId;
    this.inspector = inner.inspector;
  }

  listensFor(key: string): boolean {
    return this.#inner.listensFor(key);
  }

  async open(listener: StoreListener): Promise<void> {
    this.#listener = listener;
    await this.#inner.open({ ...bound(listener), message: (message) => this.#tell(message) });
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  reconnect(): void {
    this.#listener?.reconnected();
  }

  acquire = (command: AcquireCommand) =>
    this.#through(() => this.#inner.acquire(command), unknown, undone);
  recheck = (command: RecheckCommand) =>
    this.#through(() => this.#inner.recheck(command), unknown, undone);
  adopt = (command: AdoptCommand) =>
    this.#through(() => this.#inner.adopt(command), unknown, undone);
  release = (command: ReleaseCommand) =>
    this.#through(() => this.#inner.release(command), unknown, undone);
  requeue = (command: RequeueCommand) =>
    this.#through(() => this.#inner.requeue(command), unknown, undone);
  leave = (command: LeaveCommand) =>
    this.#through(() => this.#inner.leave(command), unknown, undone);
  acquireTogether = (commands: readonly AcquireCommand[]) =>
    this.#through(
      () => this.#inner.acquireTogether(commands),
      commands.map(() => unknown),
      commands.map(() => undone),
    );
  renew = (commands: readonly RenewCommand[]) =>
    eachOf(
      commands,
      this.#through(
        () => Promise.all(this.#inner.renew(commands)),
        commands.map(() => unknown),
        commands.map(() => undone),
      ),
    );
  takeBack = (commands: readonly TakeBackCommand[]) =>
    eachOf(
      commands,
      this.#through(
        () => Promise.all(this.#inner.takeBack(commands)),
        commands.map(() => unknown),
        commands.map(() => undone),
      ),
    );

  #through<Reply, Lost>(
    run: () => Promise<Reply>,
    lost: Lost,
    refused: Lost,
  ): Promise<Reply | Lost> {
    const clock = this.#clock;
    return new Promise((resolve) => {
      const cancel = clock.after(this.commandTimeoutMs, () => resolve(lost));
      const answer = (reply: Reply | Lost): void => {
        this.#repliedUntil = Math.max(this.#repliedUntil, clock.now() + this.#latency());
        clock.after(this.#repliedUntil - clock.now(), () => {
          cancel();
          resolve(reply);
        });
      };
      if (this.refusing) return answer(refused);
      this.#sentUntil = Math.max(this.#sentUntil, this.silentUntil, clock.now() + this.#latency());
      clock.after(this.#sentUntil - clock.now(), () => {
        void run().then((reply) => {
          if (this.isReliable || this.#random() > 0.02) answer(reply);
        });
      });
    });
  }

  #tell(message: StoreMessage): void {
    // A notice of revocation always arrives here; without it, the holder would learn of the loss only at its next
    // renewal.
    if (!this.isReliable && message.kind !== 'revoked' && this.#random() < 0.03) return;
    const from = message.kind === 'revoked' ? 0 : this.silentUntil;
    this.#toldUntil = Math.max(this.#toldUntil, from, this.#clock.now() + this.#latency());
    this.#clock.after(this.#toldUntil - this.#clock.now(), () => this.#listener?.message(message));
  }

  #latency(): number {
    if (this.isReliable) return 1;
    return this.#random() < 0.03 ? 50 + this.#random() * 400 : this.#random() * 3;
  }
}

function eachOf<Reply>(
  commands: readonly unknown[],
  answer: Promise<readonly Reply[]>,
): Promise<Reply>[] {
  return commands.map(async (_, i) => (await answer)[i] as Reply);
}

function bound(listener: StoreListener): StoreListener {
  return {
    message: (message) => listener.message(message),
    reconnected: () => listener.reconnected(),
    inboxLost: () => listener.inboxLost(),
    storeLost: (cause) => listener.storeLost(cause),
    storeBack: () => listener.storeBack(),
    mayEvict: (policy) => listener.mayEvict(policy),
  };
}
