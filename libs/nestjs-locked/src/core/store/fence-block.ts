/**
 * How many fencing numbers are reserved with a lease: one for each hold that a process may hand out before it renews
 * the lease. Numbers are microseconds of the store's clock, so a block is ten milliseconds ahead of that clock, which
 * is less than Redis takes to restart without its data.
 */
export const FENCE_BLOCK = 10_000;
