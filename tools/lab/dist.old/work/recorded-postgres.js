import pg from 'pg';
import { currentPurchase } from './purchase.js';
/**
 * Makes every PostgreSQL client of this process write down the begin and end of transactions, and stop before COMMIT.
 * This covers both TypeORM and the stages that use `pg` directly.
 */
export function recordTransactions() {
    const prototype = pg.Client.prototype;
    const query = prototype.query;
    prototype.query = function (...args) {
        const purchase = currentPurchase.getStore();
        const [statement] = args;
        const text = typeof statement === 'string' ? statement : '';
        const verb = /^\w*/.exec(text)?.[0].toUpperCase() ?? '';
        if (purchase === undefined)
            return query.apply(this, args);
        switch (verb) {
            case 'BEGIN':
            case 'START':
                purchase.note('begin');
                return query.apply(this, args);
            case 'ROLLBACK':
                purchase.note('rolled back');
                return query.apply(this, args);
            case 'COMMIT': {
                const commit = async () => {
                    await purchase.reach('commit');
                    purchase.note('commit');
                    const answer = (await query.apply(this, args));
                    // PostgreSQL answers COMMIT with ROLLBACK if a statement before it had failed.
                    purchase.note(answer.command === 'ROLLBACK' ? 'rolled back' : 'committed');
                    return answer;
                };
                return commit();
            }
            default:
                return query.apply(this, args);
        }
    };
}
//# sourceMappingURL=recorded-postgres.js.map