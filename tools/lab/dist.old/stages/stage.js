import { inTransaction, takePieces } from '../work/shop.js';
export function lockAround(lock, { pool }) {
    const locked = async (purchase, work) => {
        purchase.waits();
        const owner = await lock.acquire(purchase.key);
        purchase.holds();
        try {
            await work();
        }
        finally {
            purchase.releases();
            await lock.release(purchase.key, owner);
        }
    };
    return {
        buy: (purchase) => locked(purchase, () => inTransaction(pool, (sql) => takePieces(sql, purchase))),
        buyInsideTransaction: (purchase) => inTransaction(pool, (sql) => locked(purchase, () => takePieces(sql, purchase))),
        close: () => lock.close?.(),
    };
}
//# sourceMappingURL=stage.js.map