/**
 * The arithmetic of leases, in milliseconds. Sources: subtracting a margin for clock drift from a lease is the validity
 * time of the Redlock algorithm; renewing at a third leaves two more tries.
 */

/** How much earlier than in the store a lease of this length ends for us, because clocks drift. */
export function driftMarginMs(leaseMs: number): number {
  return Math.max(5, leaseMs / 100);
}

/** The short lease of a waiter that is handed the key but may be gone: long enough to use or confirm it. */
export function acceptanceLeaseMs(leaseMs: number): number {
  return Math.min(leaseMs, Math.max(1_000, Math.floor(leaseMs / 10)));
}

/** How long a waiter relies on messages at most, before it looks again by itself. */
const SAFETY_INTERVAL_MS = 5_000;

/** How long a waiter relies on messages before it re-checks, and how often an idle connection is checked. */
export function safetyIntervalMs(leaseMs: number): number {
  return Math.min(Math.ceil(leaseMs / 3), SAFETY_INTERVAL_MS);
}

/** A waiter that has not re-checked for this long has stopped: three of the longest safety intervals. */
export const SILENT_MS = 3 * SAFETY_INTERVAL_MS;

/** How long a key stays taken that an operator took from its holder: time for the holder to learn of it and stop. */
export const REVOKED_MS = 1_000;

/** The longest pause before a failed renewal is retried, in milliseconds. */
const RETRY_MS = 100;

/**
 * When to retry a renewal that failed at `now`: after 50 to 100 ms, rounded so that leases whose renewals failed one
 * after the other share the next script. One script for each of ten thousand leases would take too long.
 */
export function renewalRetryAt(now: number): number {
  const grid = RETRY_MS / 2;
  return (Math.floor(now / grid) + 2) * grid;
}

/**
 * How long the backup renews a lease after the last renewal of the main thread. A thread that is blocked for ever must
 * not keep its locks for ever, even if their `maxHoldMs` is Infinity.
 */
export const LONGEST_BLOCK_MS = 600_000;

/** A lease is renewed after every third of it, so that two more tries fit in before it ends. */
const PARTS_OF_A_LEASE = 3;

/** When to renew a lease counted from `sentAt`: after a third, rounded so that many leases share one script. */
export function renewalDueAt(sentAt: number, leaseMs: number): number {
  const grid = Math.max(10, leaseMs / 60);
  return Math.floor((sentAt + leaseMs / PARTS_OF_A_LEASE) / grid) * grid;
}
