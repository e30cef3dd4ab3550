/**
 * How many fencing numbers are reserved with the lease of a key for which others wait: one for each hold that a process
 * may hand out before it renews the lease, and enough for the usual number of local hand-overs. A free key comes with
 * one number. Numbers are microseconds of the store's clock and may be shared by all keys, so few are reserved until it
 * shows that many are used.
 */
export const FENCE_BLOCK = 40;

/**
 * The microsecond in which the year 2112 has begun: no fencing number that others have seen may be greater. All keys
 * continue after a number that one of them has seen, at half the speed of the clock, so it must be centuries before
 * numbers can be counted no longer.
 */
export const HIGHEST_NUMBER = 2 ** 52;

/**
 * How many a renewal may reserve at most. They are ten milliseconds ahead of the store's clock, which is less than
 * Redis takes to restart without its data.
 */
export const LARGEST_FENCE_BLOCK = 10_000;
