import { inTransaction, takePieces } from '../work/shop.js';
export const rowLock = {
    number: 3,
    name: 'row lock (pessimistic)',
    lesson: 'SELECT ... FOR UPDATE is right: the database itself lets one in at a time.',
    breaks: 'Every caller holds a connection while it waits, and a paused holder blocks the others.',
    traits: ['lock'],
    open({ pool }) {
        const buy = (purchase) => inTransaction(pool, async (sql) => {
            purchase.waits();
            try {
                // Breaks here: a waiter has begun a transaction, and keeps its connection.
                await takePieces(sql, purchase, 'FOR UPDATE');
            }
            finally {
                purchase.releases(); // COMMIT and ROLLBACK release it
            }
        });
        return { buy, buyInsideTransaction: buy };
    },
};
//# sourceMappingURL=03-row-lock.js.map