import { LockStoreError } from '../lock.errors.js';
import { unreachable } from '../runtime/unreachable.js';
import type { ReleaseCommand, ReleaseReply } from '../store/lock-store.js';
import type { EngineParts } from './engine-parts.js';
import type { FencingNumbers } from './fencing-numbers.js';
import type { LeaseDeadline } from './lease-deadline.js';
import type { LeaseRequest } from './lease-request.js';
import type { LeaseOccupancy } from './lease-user.js';

/** How a lease ends in the store: released, handed over while its queue asks again, or freed after it was lost. */
export class LeaseRelease {
  readonly #parts: EngineParts;
  readonly #key: string;
  readonly #token: string;
  readonly #deadline: LeaseDeadline;
  readonly #numbers: FencingNumbers;
  readonly #occupancy: Pick<LeaseOccupancy, 'label' | 'template'>;

  constructor(
    parts: EngineParts,
    key: string,
    token: string,
    deadline: LeaseDeadline,
    numbers: FencingNumbers,
    occupancy: Pick<LeaseOccupancy, 'label' | 'template'>,
  ) {
    this.#parts = parts;
    this.#key = key;
    this.#token = token;
    this.#deadline = deadline;
    this.#numbers = numbers;
    this.#occupancy = occupancy;
  }

  /**
   * During an outage in which calls fail at once, the release is sent, but its answer is not awaited.
   *
   * @param keepMs how long the key stays taken without a holder
   * @returns whether the lease was ours until now @throws LockStoreError if that is unknown
   */
  async release(keepMs: number): Promise<boolean> {
    const { cleanUp, clock, outages } = this.#parts;
    const until = this.#deadline.latest;
    const keptUntil = clock.now() + keepMs;
    const answer = cleanUp.release(
      this.#command(this.#numbers.toReport, keepMs),
      until,
      this.forget,
    );
    const cause = outages.failFastCause(this.#key);
    const reply: ReleaseReply = cause === undefined ? await answer : { kind: 'unknown', cause };
    switch (reply.kind) {
      case 'released':
        return true;
      case 'lost':
        return false;
      case 'unknown':
        throw this.#unknown(reply.cause, keptUntil > until ? keptUntil : undefined);
      default:
        return unreachable(reply);
    }
  }

  /**
   * Hands the lease over to others that have waited long enough, and joins the store's queue again, in one step.
   * @param waitedMs later arrivals than this long ago stay behind
   * @returns whether the lease was ours until now @throws LockStoreError if that is unknown
   */
  async requeue(next: LeaseRequest, waitedMs: number): Promise<boolean> {
    const old = this.#command(this.#numbers.toReport);
    const until = this.#deadline.latest;
    const { token: newToken, firstMs: leaseMs } = next;
    const reply = await this.#parts.store.requeue({ ...old, newToken, leaseMs, waitedMs });
    // Takes back the remains of this lease before the next request takes back its own.
    const isUnknown = reply.kind === 'unknown' && reply.wasReleased === undefined;
    const released = isUnknown ? this.#parts.cleanUp.release(old, until, this.forget) : undefined;
    if (!isUnknown) this.forget();
    next.onFirstReply(reply);
    if (!isUnknown) return reply.kind === 'unknown' ? reply.wasReleased === true : !reply.wasLost;
    // Nothing was executed, so the answer to the separate release is the result, unless it would take as long again.
    const isAway = this.#parts.outages.concern([this.#key]);
    const alone = reply.neverRan === true && !isAway ? await released : undefined;
    if (alone !== undefined && alone.kind !== 'unknown') return alone.kind === 'released';
    throw this.#unknown(reply.cause);
  }

  /**
   * Releases a lease that may only have been believed lost, after the work under it has ended. No numbers are given
   * back: if its command was sent twice, the store may have granted it again since, after others had higher numbers.
   */
  afterLoss(keepMs: number): void {
    void this.#parts.cleanUp.release(this.#command(0, keepMs), this.#deadline.latest, this.forget);
  }

  /** Ends the tenure of the token: messages about it are ignored. */
  readonly forget = (): void => this.#parts.tokens.forget(this.#token);

  #command(used: number, keepMs = 0): ReleaseCommand {
    return { key: this.#key, token: this.#token, used, keepMs };
  }

  #unknown(cause: LockStoreError, keptUntil?: number): LockStoreError {
    const now = this.#parts.clock.now();
    const keepMs = Math.max(0, (keptUntil ?? now) - now);
    const key = this.#key;
    const isAway = this.#parts.outages.isReportedOf(key);
    const { label, template } = this.#occupancy;
    const of = { key, label, template };
    this.#parts.report({ type: 'release-unknown', ...of, cause, keepMs, isAway });
    return new LockStoreError(
      `Cannot tell whether lock '${key}' was released: ${cause.message}; it ends with its lease`,
      key,
      { cause },
      true,
    );
  }
}
