import type { Lease } from './lease.js';
import { LockLostError, LockStoreError, type LockLostReason } from './lock.errors.js';
import type { ResolvedLockOptions } from './lock.options.js';

const WHY: Record<LockLostReason, string> = {
  expired: 'its lease could not be renewed in time, or was a fixed one that has ended',
  stolen: 'Redis says that it is no longer ours; the key was deleted, overwritten or taken over',
  'max-hold': 'the work took longer than maxHoldMs',
  shutdown: 'the application was closed while the work still ran',
  'transaction-ended': 'the transaction that kept it is over, and its body still runs',
  released: 'it was released',
};

/**
 * One call's right to one key, under the lease that was current when it was handed out; with the calls inside of it
 * that joined. It ends when the last of them has.
 */
export class Hold {
  readonly key: string;
  readonly options: ResolvedLockOptions;
  /** On the monotonic clock. */
  readonly since: number;
  readonly #lease: Lease;
  #fencingToken: number;
  #controller: AbortController | undefined;
  #lost: LockLostError | undefined;
  #users = 1;
  #ended: Promise<boolean> | undefined;
  #end!: (ended: Promise<boolean>) => void;

  constructor(lease: Lease, fencingToken: number, options: ResolvedLockOptions, since: number) {
    this.#lease = lease;
    this.key = lease.name;
    this.#fencingToken = fencingToken;
    this.options = options;
    this.since = since;
  }

  get fencingToken(): number {
    return this.#fencingToken;
  }

  get signal(): AbortSignal {
    this.#lease.noticeDeadline();
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#lost !== undefined) this.#controller.abort(this.#lost);
    }
    return this.#controller.signal;
  }

  get isHeld(): boolean {
    return this.remainingMs() > 0;
  }

  remainingMs(): number {
    return this.#users === 0 || this.#lost !== undefined ? 0 : this.#lease.remainingMs();
  }

  /** How long it may last, whatever becomes of the lease. */
  holdLeftMs(): number {
    return this.#lease.holdLeftMs();
  }

  /** @throws LockLostError */
  assertHeld(): void {
    if (this.isHeld) return;
    this.#lease.noticeDeadline();
    if (this.#lost === undefined) throw lostError(this.key, 'released');
    throw lostError(this.key, this.#lost.reason, { cause: this.#lost });
  }

  /** @throws LockLostError · LockStoreError */
  async ensure(ms: number): Promise<void> {
    this.assertHeld();
    if (this.#lease.isTrusted && this.remainingMs() >= ms) return;
    const cause = await this.#lease.prolong(this, ms);
    this.assertHeld();
    if (this.#lease.isTrusted && this.remainingMs() >= ms) return;
    if (this.#lease.holdLeftMs() < ms) throw lostError(this.key, 'max-hold', { cause });
    throw new LockStoreError(
      `Cannot ensure lock '${this.key}' for ${ms} ms, ${Math.floor(this.remainingMs())} ms are left: ${cause?.message ?? 'Redis took too long'}`,
      this.key,
      { cause },
    );
  }

  /** Like `ensure`, but no longer than the hold may last. @throws LockLostError · LockStoreError */
  async refresh(ms: number): Promise<void> {
    await this.ensure(Math.max(0, Math.floor(Math.min(ms, this.holdLeftMs()))));
  }

  /**
   * The database has seen a higher number than ours. Goes on from there, if the store confirms that we are the holder.
   * @throws LockLostError if we are not · LockStoreError if it does not answer
   */
  async raiseFence(seen: number): Promise<void> {
    this.#fencingToken = await this.#lease.raiseFence(this, seen);
  }

  /** Nobody knows whether the transaction under it was committed: it is renewed and passed on no more. */
  commitUnknown(): void {
    this.#lease.commitUnknown(this);
  }

  /** How many calls share the hold. */
  get users(): number {
    return this.#users;
  }

  /** Another call joins: it will `drop` the hold, too. */
  join(): void {
    this.#users++;
  }

  /** One of the calls has ended. @returns when the hold has: whether the lease was ours until then */
  drop(): Promise<boolean> {
    this.#users--;
    if (this.#users > 0) {
      this.#ended ??= new Promise((resolve) => (this.#end = resolve));
      return this.#ended;
    }
    const ended = this.#lease.endHold(this);
    if (this.#ended === undefined) this.#ended = ended;
    else this.#end(ended);
    return this.#ended;
  }

  /** The first reason stays. */
  lose(reason: LockLostReason): LockLostError {
    this.#lost ??= lostError(this.key, reason);
    this.#controller?.abort(this.#lost);
    return this.#lost;
  }
}

/** The error for a hold that is not one any more. */
export function lostError(
  key: string,
  reason: LockLostReason,
  options?: ErrorOptions,
): LockLostError {
  const state = reason === 'released' ? 'is not held' : `was lost (${reason})`;
  const message = `Lock '${key}' ${state}: ${WHY[reason]}`;
  return new LockLostError(message, key, reason, options);
}
