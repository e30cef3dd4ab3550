import { addPurchase, inTransaction, readStock, think } from '../work/shop.js';
class VersionChanged extends Error {
}
export const versionColumn = {
    number: 4,
    name: 'version column (optimistic)',
    lesson: 'UPDATE ... WHERE version = what I read is right: the rows affected decide.',
    breaks: 'Under contention most attempts fail, and every caller has to try again.',
    traits: ['lock'],
    open: ({ pool }) => ({
        async buy(purchase) {
            for (;;) {
                try {
                    return await inTransaction(pool, (sql) => tryOnce(sql, purchase));
                }
                catch (error) {
                    if (!(error instanceof VersionChanged))
                        throw error;
                    purchase.note('retry'); // Breaks here: the work done so far is lost.
                }
            }
        },
    }),
};
async function tryOnce(sql, purchase) {
    const { stokenum, version } = await readStock(sql, purchase);
    await think(sql, purchase);
    purchase.note('write');
    const updated = await sql(`UPDATE stocks SET stokenum = $2, version = version + 1
      WHERE id = $1 AND version = $3 RETURNING id`, [purchase.product, stokenum - purchase.quantity, version]);
    if (updated.length === 0)
        throw new VersionChanged();
    purchase.holds(); // it has the row from its UPDATE to its COMMIT
    await addPurchase(sql, purchase);
    purchase.releases();
}
//# sourceMappingURL=04-version-column.js.map