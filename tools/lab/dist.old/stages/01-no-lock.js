import { inTransaction, takePieces } from '../work/shop.js';
export const noLock = {
    number: 1,
    name: 'no lock',
    lesson: 'A transaction alone does not keep others from reading the same value.',
    breaks: 'Several workers read the same stock, and the last one to save wins.',
    traits: [],
    open: ({ pool }) => ({
        async buy(purchase) {
            purchase.holds(); // nobody was asked, so nobody said no
            // Breaks here: everybody reads 100, and everybody saves 90.
            await inTransaction(pool, (sql) => takePieces(sql, purchase));
            purchase.releases();
        },
    }),
};
//# sourceMappingURL=01-no-lock.js.map