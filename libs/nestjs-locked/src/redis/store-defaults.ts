/** Separate from the store, because the table of options, which is loaded without it, uses them. */

/** How long the start of the application waits for Redis, in milliseconds. */
export const START_MS = 10_000;

/**
 * How far the clock of a server may be set back, or be behind on a replica that takes over, without a fencing number
 * being issued twice, in milliseconds. The fence of one lock is kept for this long after the clock has passed it
 * (docs/adr/0011); one that all locks share does not expire (docs/adr/0041).
 */
export const FENCE_KEEP_MS = 600_000;
