import type { LockStoreError } from '../lock.errors.js';
import type { Clock } from '../time/clock.js';
import type { Scheduler } from '../time/scheduler.js';
import type {
  LockStore,
  ReleaseCommand,
  ReleaseReply,
  TakeBackCommand,
  TakeBackReply,
  Unknown,
} from './lock-store.js';
import type { Outages } from './outages.js';
import type { CleanUpsOfKey, PendingCleanUp } from './pending-clean-up.js';
import { RetryPause } from './retry-pause.js';

/**
 * The interval at which one of the keys that the store refuses is tried again, however many there are. When one is
 * allowed again, all are tried.
 */
const REFUSED_EVERY_MS = 50;

/** The longest pause of a refused key that somebody wants. */
const WANTED_AFTER_MS = 1_000;

/**
 * Takes back what a command may have left in the store when its result is no longer awaited. The commands of the
 * clean-up check the owner and are safe to repeat, so each is repeated until it is answered, or until nothing can be
 * left: a lease expires, a position in the queue does not. A key that is to stay taken for longer than its lease is
 * kept as soon as the store answers, if it is free then.
 *
 * No key waits for another. Commands of one turn of the event loop are sent together and answered separately. A failed
 * one is retried after a pause of its key, but not while the node of the store with the key is away. The store may
 * refuse commands for hours because a right is missing: however many keys there are, only a few are tried per second.
 */
export class CleanUp {
  readonly #store: LockStore;
  readonly #clock: Clock;
  readonly #scheduler: Scheduler;
  readonly #outages: Outages;
  readonly #byKey = new Map<string, CleanUpsOfKey>();
  /** The keys of which the store refused a command at the last try. */
  readonly #refused = new Set<CleanUpsOfKey>();
  /** When the last of them is due. */
  #lastTryAt = -Infinity;
  /** The commands to send at the end of this turn of the event loop. */
  #collected: PendingCleanUp[] = [];
  readonly #onTheirWay = new Set<Promise<unknown>>();
  #closed = false;

  constructor(store: LockStore, clock: Clock, scheduler: Scheduler, outages: Outages) {
    this.#store = store;
    this.#clock = clock;
    this.#scheduler = scheduler;
    this.#outages = outages;
  }

  /** Removes the tokens from the queue; hands the lease on if one of them has been granted it. */
  leave(key: string, tokens: readonly [string, string?], until: number, done: () => void): void {
    const ofKey = this.#add({ key, tokens }, until, done);
    if (ofKey.scheduled === undefined) this.#collect(ofKey);
    else this.#hasten(ofKey);
  }

  /** Releases, and returns the first answer; after `unknown`, the release is repeated in the background. */
  release(command: ReleaseCommand, until: number, done: () => void): Promise<ReleaseReply> {
    const keptUntil = this.#clock.now() + (command.keepMs ?? 0);
    return this.#whenAnswered(this.#store.release(command), (first) => {
      if (first.kind === 'unknown' && first.isLasting !== true) {
        const { key, token, used } = command;
        const ofKey = this.#add({ key, tokens: [token], used }, until, done, first, keptUntil);
        ofKey.triedAt = this.#clock.now();
        this.#noteRefusal(ofKey);
        this.#pause(ofKey);
      } else {
        done();
      }
      return first;
    });
  }

  /** Returns a key that was granted to an unused token: at once, without waiting for the pause after a failure. */
  returnAtOnce(key: string, token: string, until: number, done: () => void): void {
    const ofKey = this.#byKey.get(key);
    const isPending = [...(ofKey?.pending ?? [])].some(({ command }) =>
      command.tokens.includes(token),
    );
    this.#collect(isPending && ofKey ? ofKey : this.#add({ key, tokens: [token] }, until, done));
  }

  /**
   * Why remains of this key could not be taken back so far, if there are any. They could block a request for the key: a
   * token of ours that no request or lease uses any more.
   *
   * Commands not tried yet do not count: they are sent now, and the store executes commands in order.
   */
  stuckBy(key: string): LockStoreError | undefined {
    const ofKey = this.#byKey.get(key);
    if (ofKey === undefined) return undefined;
    const failure = [...ofKey.pending].find((cleanUp) => cleanUp.failure !== undefined)?.failure;
    if (failure === undefined) this.#collect(ofKey);
    else this.#hasten(ofKey);
    this.#flush(); // ahead of the request
    return failure?.cause;
  }

  /** Calls back once when nothing is pending for the key any more. */
  whenSettled(key: string, callback: () => void): void {
    const ofKey = this.#byKey.get(key);
    if (ofKey === undefined) callback();
    else ofKey.waiting.push(callback);
  }

  /** Called when the store, or a node of it, may answer again. */
  lookAgain(): void {
    this.#tryAll(this.#byKey.values());
  }

  /** Waits for commands in flight, retries unanswered ones once, and stops repeating. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const ofKey of this.#byKey.values()) this.#collect(ofKey);
    this.#flush();
    while (this.#onTheirWay.size > 0) {
      await Promise.all(this.#onTheirWay);
      this.#flush();
    }
  }

  #add(
    command: TakeBackCommand,
    leaseEnd: number,
    done: () => void,
    failure?: Unknown,
    keptUntil = -Infinity,
  ): CleanUpsOfKey {
    const until = Math.max(leaseEnd, keptUntil);
    const ofKey = this.#byKey.get(command.key) ?? this.#newKey();
    this.#byKey.set(command.key, ofKey);
    ofKey.pending.add({
      command,
      until,
      keptUntil,
      done,
      isOnItsWay: false,
      isLast: false,
      failure,
    });
    return ofKey;
  }

  #newKey(): CleanUpsOfKey {
    const ofKey: CleanUpsOfKey = {
      scheduled: undefined,
      pending: new Set(),
      retryPause: new RetryPause(),
      pausedUntil: -Infinity,
      triedAt: -Infinity,
      isProbe: false,
      waiting: [],
      onDue: (now) => this.#pauseIsOver(ofKey, now),
    };
    return ofKey;
  }

  #settle(ofKey: CleanUpsOfKey, cleanUp: PendingCleanUp): void {
    ofKey.pending.delete(cleanUp);
    cleanUp.done();
    if (ofKey.pending.size > 0) return;
    this.#scheduler.cancel(ofKey);
    this.#refused.delete(ofKey);
    this.#byKey.delete(cleanUp.command.key);
    for (const callback of ofKey.waiting) callback();
  }

  #isAway({ pending }: CleanUpsOfKey): boolean {
    return [...pending].some(({ command }) => this.#outages.concern([command.key]));
  }

  // ---- sending ----------------------------------------------------------------------------------------------

  #tryAll(keys: Iterable<CleanUpsOfKey>): void {
    this.#lastTryAt = -Infinity;
    for (const ofKey of keys) {
      if (this.#isAway(ofKey)) continue;
      ofKey.retryPause.reset();
      this.#collect(ofKey);
    }
  }

  /** Sends everything pending for the key that is not in flight. */
  #collect(ofKey: CleanUpsOfKey, isProbe = false): void {
    this.#scheduler.cancel(ofKey);
    ofKey.triedAt = this.#clock.now();
    ofKey.isProbe = isProbe;
    for (const cleanUp of ofKey.pending) {
      if (cleanUp.isOnItsWay) continue;
      cleanUp.isOnItsWay = true;
      cleanUp.isLast = this.#closed;
      if (this.#collected.push(cleanUp) === 1) queueMicrotask(() => this.#flush());
    }
  }

  #flush(): void {
    const sent = this.#collected;
    if (sent.length === 0) return;
    this.#collected = [];
    const now = this.#clock.now();
    const commands = sent.map(({ command, keptUntil }) =>
      keptUntil > now ? { ...command, keepMs: Math.ceil(keptUntil - now) } : command,
    );
    const replies = this.#store.takeBack(commands);
    sent.forEach((cleanUp, i) => {
      const reply = replies[i] as Promise<TakeBackReply>;
      void this.#whenAnswered(reply, (answer) => this.#answered(cleanUp, answer));
    });
  }

  /** Registers the reply and its handling, for which closing waits. */
  #whenAnswered<Reply, Result>(
    reply: Promise<Reply>,
    act: (reply: Reply) => Result,
  ): Promise<Result> {
    const acted = reply.then((answer) => {
      this.#onTheirWay.delete(acted);
      return act(answer);
    });
    this.#onTheirWay.add(acted);
    return acted;
  }

  #answered(cleanUp: PendingCleanUp, reply: TakeBackReply): void {
    cleanUp.isOnItsWay = false;
    const ofKey = this.#byKey.get(cleanUp.command.key);
    if (ofKey === undefined || !ofKey.pending.has(cleanUp)) return;
    const isUnknown = reply.kind === 'unknown';
    const wasRefused = this.#refused.has(ofKey);
    if (!isUnknown || reply.isLasting === true || cleanUp.isLast) {
      this.#settle(ofKey, cleanUp);
      const isAllowed = !this.#noteRefusal(ofKey);
      if (wasRefused && isAllowed && ofKey.isProbe && !isUnknown) this.#tryAll(this.#refused);
      return;
    }
    cleanUp.failure = reply;
    this.#noteRefusal(ofKey);
    this.#pause(ofKey);
  }

  /** @returns whether the store refuses any pending command of the key; not all of them need the same rights */
  #noteRefusal(ofKey: CleanUpsOfKey): boolean {
    const isRefused = [...ofKey.pending].some(({ failure }) => failure?.isRefused === true);
    if (isRefused) this.#refused.add(ofKey);
    else this.#refused.delete(ofKey);
    return isRefused;
  }

  #pause(ofKey: CleanUpsOfKey): void {
    if (this.#closed) return this.#collect(ofKey);
    if (ofKey.scheduled !== undefined) return;
    const now = this.#clock.now();
    const tryAt = this.#refused.has(ofKey) ? this.#nextTryAt(now) : now;
    ofKey.pausedUntil = Math.max(now + ofKey.retryPause.next(), tryAt);
    this.#schedule(ofKey);
  }

  /** Refused keys are tried one after the other. A key tried early leaves a gap. */
  #nextTryAt(now: number): number {
    const longestMs = this.#refused.size * REFUSED_EVERY_MS;
    if (this.#lastTryAt < now || this.#lastTryAt > now + longestMs) this.#lastTryAt = now;
    this.#lastTryAt += REFUSED_EVERY_MS;
    return this.#lastTryAt;
  }

  /** Schedules the retry, or the moment at which a pending clean-up expires, if that is earlier. */
  #schedule(ofKey: CleanUpsOfKey): void {
    const ends = [...ofKey.pending].map(({ until }) => until);
    this.#scheduler.schedule(ofKey, Math.min(ofKey.pausedUntil, ...ends));
  }

  /** Shortens the pause of a refused key that somebody wants. */
  #hasten(ofKey: CleanUpsOfKey): void {
    if (ofKey.scheduled === undefined || !this.#refused.has(ofKey)) return;
    ofKey.pausedUntil = Math.min(ofKey.pausedUntil, ofKey.triedAt + WANTED_AFTER_MS);
    this.#schedule(ofKey);
  }

  /** Forgets expired clean-ups and retries the rest. */
  #pauseIsOver(ofKey: CleanUpsOfKey, now: number): void {
    for (const cleanUp of [...ofKey.pending])
      if (cleanUp.until <= now) this.#settle(ofKey, cleanUp);
    if (ofKey.pending.size === 0) return;
    if (now < ofKey.pausedUntil) this.#schedule(ofKey);
    else if (this.#isAway(ofKey)) this.#pause(ofKey);
    else this.#collect(ofKey, this.#refused.has(ofKey));
  }
}
