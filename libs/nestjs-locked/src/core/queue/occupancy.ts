import type { Lease } from '../lease/lease.js';
import type { LeaseOccupancy } from '../lease/lease-user.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { PresentCall } from '../store/holder-question.js';
import type { ClockStep } from '../time/suspend-detector.js';
import type { Hold } from './hold.js';

/**
 * Who is inside, for the life of one lease: which calls have it, whether the next one may have it too, and how long it
 * is kept when nobody here wants it. An exclusive lease has one call at a time (`SoleOccupancy`), a shared one any
 * number (`SharedOccupancy`).
 *
 * To its occupancy, the lease is *in use* while a call is inside, *free* when the queue may let a call in, and *idle*
 * while it is kept in case another call here wants the key. Before it is handed out and after it has ended, it is none
 * of these, which the lease itself knows.
 */
export interface Occupancy extends LeaseOccupancy {
  readonly lease: Lease;
  /** The calls inside. */
  readonly holds: Iterable<Hold>;
  /** A call inside, as it is told to others: of several readers, the one that came last. Null if there is none. */
  readonly call: PresentCall | null;
  /** Whether the lease is kept although no call here wants the key. */
  readonly isIdle: boolean;
  /** Whether a call has the lease, which is not lost. */
  readonly isHeld: boolean;
  /** Whether the next call may get it without a round trip, and without waiting for another one to end. */
  readonly isFree: boolean;
  /** Whether a call that comes may be let in at once, although another one may be inside. */
  readonly isOpen: boolean;
  /** Whether a single try must fail, because the lease is that of another call. */
  readonly isTaken: boolean;
  /**
   * Whether a call may have this lease, possibly after a renewal. If not, the lease goes back to the store, or is left
   * to the calls inside, and is requested again.
   * @param waitsSince when the call arrived
   */
  mayServe(options: ResolvedLockOptions, waitsSince: number): boolean;
  /**
   * Gives the lease to a call.
   * @param isOneOfSeveral whether the call waits for other keys too, so that the hold begins later
   * @returns undefined if the store must confirm the lease first, or if it has just ended: the call keeps waiting
   */
  handOut(options: ResolvedLockOptions, isOneOfSeveral: boolean): Hold | undefined;
  /** Called when another call waits here. */
  expectCall(): void;
  /** Keeps the lease for `lingerMs`, or releases it. @returns whether it was ours until now */
  rest(): Promise<boolean>;
  /**
   * Gives the lease, which may serve no further call, back to the store, so that it is requested again.
   * @param since when the next call made its request
   * @returns whether the lease was ours until now
   */
  requeue(since: number): Promise<boolean>;
  /** Called when the calls inside are the last ones: the lease is released after them. */
  part(): void;
  /** Releases an idle lease, because another process wants the key or its time is over. */
  giveUp(): void;
  /** At shutdown: aborts the signals of the calls inside and leaves the lease to expire. */
  abandonHold(): void;
  /**
   * Called when the server may have changed or be empty: releases an idle lease, which is not worth a renewal; any
   * other is renewed at once.
   */
  lookAgain(): void;
  /** Called when the machine may have slept: our clock stopped while the lease kept running in the store. */
  suspect(step: ClockStep): void;
}
