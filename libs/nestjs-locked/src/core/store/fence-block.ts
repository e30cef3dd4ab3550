/**
 * So many fencing numbers are reserved with a lease, for as many holds as a process may make of it until it renews it.
 * Numbers are microseconds of the store's clock: a block is as far ahead of it as ten milliseconds, which is less than it
 * takes Redis to come back without its data.
 */
export const FENCE_BLOCK = 10_000;
