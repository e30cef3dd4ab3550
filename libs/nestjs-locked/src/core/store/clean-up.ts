import type { Clock } from '../time/clock.js';
import type { Scheduled, Scheduler } from '../time/scheduler.js';
import type { LockStore, ReleaseCommand, ReleaseReply, Unknown } from './lock-store.js';
import { RetryPause } from './retry-pause.js';

/** How many may be on their way at once when the store answers again: all of them together would be a flood. */
const MOST_ON_THEIR_WAY = 16;

/** Something that a command may have left in the store. */
interface Debt {
  readonly key: string;
  /** When it has ended on its own. */
  readonly until: number;
  readonly pay: () => Promise<Unknown | { readonly kind: string }>;
  /** Called when it is settled, one way or another. */
  readonly done: () => void;
  isOnItsWay: boolean;
  /** It was tried, and not answered: what is true in the store is not known. */
  hasFailed: boolean;
}

interface DebtsOfKey {
  readonly debts: Set<Debt>;
  /** Called when all of them are settled. */
  readonly waiting: (() => void)[];
}

/**
 * Takes back what a command may have left in the store when nobody waits for its result any more. Its own commands
 * check the owner and are harmless to repeat, so each is repeated until it is answered, or until the lease in question
 * must have ended.
 *
 * There is one list for all keys. While the store does not answer, one debt after the other is tried, with pauses,
 * however many there are; the rest follow when one of them was answered.
 */
export class CleanUp implements Scheduled {
  place: Scheduled['place'];
  readonly #store: LockStore;
  readonly #clock: Clock;
  readonly #scheduler: Scheduler;
  readonly #debts = new Set<Debt>();
  readonly #byKey = new Map<string, DebtsOfKey>();
  readonly #onTheirWay = new Set<Promise<void>>();
  readonly #retryPause = new RetryPause();
  #closed = false;

  constructor(store: LockStore, clock: Clock, scheduler: Scheduler) {
    this.#store = store;
    this.#clock = clock;
    this.#scheduler = scheduler;
  }

  /** Removes the tokens from the queue; hands the lease on if one of them has got it meanwhile. */
  leave(key: string, tokens: readonly [string, string?], until: number, done: () => void): void {
    const command = { key, tokens, take: false, leaseMs: 0 };
    this.#owe(key, until, () => this.#store.leave(command), done, false);
    this.#payNext();
  }

  /** Releases, and returns the first answer. If that is `unknown`, the release is repeated after it. */
  release(command: ReleaseCommand, until: number, done: () => void): Promise<ReleaseReply> {
    return this.#store.release(command).then((first) => {
      if (first.kind === 'unknown' && first.isLasting !== true && !this.#closed) {
        this.#owe(command.key, until, () => this.#store.release(command), done, true);
        this.#pause();
      } else {
        done();
      }
      return first;
    });
  }

  /**
   * Whether something that was left for this key could not be taken back so far. A request for the key might find it in
   * the way: a token of our own that no request or lease uses any more.
   *
   * A debt that is on its way for the first time does not count, because the store carries commands out in order.
   */
  isStuck(key: string): boolean {
    for (const { hasFailed, isOnItsWay } of this.#byKey.get(key)?.debts ?? [])
      if (hasFailed || !isOnItsWay) return true;
    return false;
  }

  /** Calls back once when nothing is owed for the key any more. */
  whenSettled(key: string, callback: () => void): void {
    const ofKey = this.#byKey.get(key);
    if (ofKey === undefined) callback();
    else ofKey.waiting.push(callback);
  }

  /** The store may answer again. */
  lookAgain(): void {
    this.#resume();
    this.#payNext();
  }

  /** Tries each once more, stops repeating, and waits for what is on its way. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#scheduler.cancel(this);
    for (const debt of this.#debts) if (!debt.isOnItsWay) this.#pay(debt);
    await Promise.all(this.#onTheirWay);
  }

  #owe(key: string, until: number, pay: Debt['pay'], done: () => void, hasFailed: boolean): void {
    const debt: Debt = { key, until, pay, done, isOnItsWay: false, hasFailed };
    this.#debts.add(debt);
    const ofKey = this.#byKey.get(key) ?? { debts: new Set(), waiting: [] };
    this.#byKey.set(key, ofKey);
    ofKey.debts.add(debt);
  }

  #settle(debt: Debt): void {
    this.#debts.delete(debt);
    debt.done();
    const ofKey = this.#byKey.get(debt.key);
    ofKey?.debts.delete(debt);
    if (ofKey?.debts.size !== 0) return;
    this.#byKey.delete(debt.key);
    for (const callback of ofKey.waiting) callback();
  }

  #payNext(): void {
    if (this.place !== undefined) return; // pausing
    for (const debt of this.#debts) {
      if (this.#onTheirWay.size >= MOST_ON_THEIR_WAY) return;
      if (!debt.isOnItsWay) this.#pay(debt);
    }
  }

  #pay(debt: Debt): void {
    debt.isOnItsWay = true;
    const payment = debt.pay().then((reply) => {
      this.#onTheirWay.delete(payment);
      debt.isOnItsWay = false;
      this.#paid(debt, reply);
    });
    this.#onTheirWay.add(payment);
  }

  #paid(debt: Debt, reply: Unknown | { readonly kind: string }): void {
    const isUnknown = reply.kind === 'unknown';
    if (!isUnknown || ('isLasting' in reply && reply.isLasting) || this.#closed) {
      this.#settle(debt);
      if (!isUnknown) this.#resume();
      return this.#payNext();
    }
    debt.hasFailed = true;
    this.#debts.delete(debt); // it goes to the end: one that is never answered must not keep the others waiting
    this.#debts.add(debt);
    this.#pause();
  }

  #resume(): void {
    this.#retryPause.reset();
    this.#scheduler.cancel(this);
  }

  #pause(): void {
    if (this.place !== undefined || this.#closed) return;
    this.#scheduler.schedule(this, this.#clock.now() + this.#retryPause.next());
  }

  /** The pause is over: what has ended on its own is forgotten, and one of the others is tried. */
  onDue(now: number): void {
    let next: Debt | undefined;
    for (const debt of this.#debts) {
      if (debt.isOnItsWay) continue;
      if (debt.until <= now) this.#settle(debt);
      else next ??= debt;
    }
    if (next !== undefined && this.#onTheirWay.size === 0) this.#pay(next);
  }
}
