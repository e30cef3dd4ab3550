import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import type { LockStore } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import type { Clock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import type { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { settled } from './fake-clock.js';

/**
 * A process whose event loop is blocked most of the time. Timers, messages and replies reach it only while it is
 * briefly awake, in the order in which Node would process them. Commands that it sends then are answered at its next
 * waking.
 */
export class StallingProcess {
  readonly engine: LockEngine;
  #awake = true;
  readonly #timers: (() => void)[] = [];
  readonly #arrived: (() => void)[] = [];

  constructor(locks: InMemoryLocks, leaseMs: number) {
    const store = new InMemoryLockStore(locks, leaseMs);
    this.engine = new LockEngine({
      store: this.#late(store),
      options: resolveServiceOptions({ leaseMs }),
      report: () => {},
      clock: this.#stalling(locks.clock),
      random: () => 0,
    });
  }

  stall(): void {
    this.#awake = false;
  }

  /** Fires the due timers, then delivers the messages and replies that have arrived. */
  async wake(): Promise<void> {
    for (const fire of this.#timers.splice(0)) fire();
    for (const receive of this.#arrived.splice(0)) receive();
    await settled();
  }

  #stalling(clock: Clock): Clock {
    return {
      now: () => clock.now(),
      wallNow: () => clock.wallNow(),
      after: (ms, fire) => {
        let isCancelled = false;
        const due = (): void => {
          if (!isCancelled) fire();
        };
        const cancel = clock.after(ms, () => (this.#awake ? due() : this.#timers.push(due)));
        return () => {
          isCancelled = true;
          cancel();
        };
      },
    };
  }

  #late(store: InMemoryLockStore): LockStore {
    const receive = (action: () => void): void => {
      if (this.#awake) action();
      else this.#arrived.push(action);
    };
    const later =
      <Command, Reply>(send: (command: Command) => Promise<Reply>) =>
      (command: Command): Promise<Reply> =>
        send(command).then((reply) => new Promise((answer) => receive(() => answer(reply))));
    const each =
      <Command, Reply>(send: (command: Command) => Promise<Reply>) =>
      (commands: readonly Command[]): Promise<Reply>[] =>
        commands.map(later(send));
    const first = <Reply>([reply]: Promise<Reply>[]) => reply as Promise<Reply>;
    return {
      processId: store.processId,
      inspector: store.inspector,
      commandTimeoutMs: store.commandTimeoutMs,
      listensFor: (key) => store.listensFor(key),
      open: (listener) =>
        store.open({
          message: (message) => receive(() => listener.message(message)),
          reconnected: () => receive(() => listener.reconnected()),
          inboxLost: () => receive(() => listener.inboxLost()),
          mayEvict: (policy) => listener.mayEvict(policy),
          storeLost: (cause) => listener.storeLost(cause),
          storeBack: () => listener.storeBack(),
        }),
      close: () => store.close(),
      acquire: later((command) => store.acquire(command)),
      acquireTogether: later((commands) => store.acquireTogether(commands)),
      recheck: later((command) => store.recheck(command)),
      renew: each((command) => first(store.renew([command]))),
      adopt: later((command) => store.adopt(command)),
      release: later((command) => store.release(command)),
      requeue: later((command) => store.requeue(command)),
      leave: later((command) => store.leave(command)),
      takeBack: each((command) => first(store.takeBack([command]))),
    };
  }
}
