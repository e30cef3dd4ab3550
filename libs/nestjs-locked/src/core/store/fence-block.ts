/**
 * How many fencing numbers are reserved with a lease: one for each hold that a process may give under it before it
 * renews it. Numbers are microseconds of the store's clock, so a block is ten milliseconds ahead of that clock, which
 * is less than it takes Redis to come back without its data.
 */
export const FENCE_BLOCK = 10_000;
