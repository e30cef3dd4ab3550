/**
 * Makes every PostgreSQL client of this process write down the begin and end of transactions, and stop before COMMIT.
 * This covers both TypeORM and the stages that use `pg` directly.
 */
export declare function recordTransactions(): void;
//# sourceMappingURL=recorded-postgres.d.ts.map