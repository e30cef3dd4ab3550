/** The times in the articles are divided by this, so a lease of 30 s is one of 3 s here. */
export const SCALE = 10;
/** Converts seconds of an article into milliseconds of the lab. */
export function seconds(articleSeconds) {
    return (articleSeconds * 1_000) / SCALE;
}
/** How long a lock lasts without renewal, in all stages that have an expiry. */
export const LEASE_MS = seconds(30);
/** How often a stage with automatic renewal renews. */
export const RENEW_EVERY_MS = seconds(10);
/** How long a spinning waiter sleeps between two looks. */
export const RETRY_MS = seconds(0.5);
//# sourceMappingURL=scale.js.map