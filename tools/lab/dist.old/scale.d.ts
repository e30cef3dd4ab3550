/** The times in the articles are divided by this, so a lease of 30 s is one of 3 s here. */
export declare const SCALE = 10;
/** Converts seconds of an article into milliseconds of the lab. */
export declare function seconds(articleSeconds: number): number;
/** How long a lock lasts without renewal, in all stages that have an expiry. */
export declare const LEASE_MS: number;
/** How often a stage with automatic renewal renews. */
export declare const RENEW_EVERY_MS: number;
/** How long a spinning waiter sleeps between two looks. */
export declare const RETRY_MS: number;
//# sourceMappingURL=scale.d.ts.map