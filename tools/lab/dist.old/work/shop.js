import { setTimeout as sleep } from 'node:timers/promises';
import { SoldOut } from './purchase.js';
const STATEMENT_EVERY_MS = 200;
export const TABLES = `
  CREATE TABLE stocks (id text PRIMARY KEY, name text NOT NULL, stokenum integer NOT NULL, version integer NOT NULL DEFAULT 0);
  CREATE TABLE purchases (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, stock_id text NOT NULL, pieces integer NOT NULL)`;
/** Runs `work` in a transaction on one connection of the pool. */
export async function inTransaction(pool, work) {
    const client = await pool.connect();
    let cut;
    const noteCut = (error) => void (cut ??= error);
    client.on('error', noteCut);
    try {
        await client.query('BEGIN');
        const result = await work(async (text, values) => (await client.query(text, [...values])).rows);
        await client.query('COMMIT');
        return result;
    }
    catch (error) {
        await client.query('ROLLBACK').catch(noteCut);
        throw cut ?? error; // the error of the next statement says less
    }
    finally {
        client.off('error', noteCut);
        client.release(cut);
    }
}
/** The common work: read, think for a moment, write. It is right only if nobody else gets in between. */
export async function takePieces(sql, purchase, suffix = '') {
    const stock = await readStock(sql, purchase, suffix);
    await think(sql, purchase);
    await addPurchase(sql, purchase);
    purchase.note('write');
    await sql('UPDATE stocks SET stokenum = $2 WHERE id = $1', [
        purchase.product,
        stock.stokenum - purchase.quantity,
    ]);
}
export async function readStock(sql, purchase, suffix = '') {
    const [stock] = await sql(`SELECT stokenum, version FROM stocks WHERE id = $1 ${suffix}`, [
        purchase.product,
    ]);
    const { stokenum, version } = stock;
    if (suffix !== '')
        purchase.holds();
    purchase.note('read', String(stokenum));
    if (stokenum < purchase.quantity)
        throw new SoldOut(`${stokenum} left`);
    return { stokenum, version };
}
/** What an application does between reading and writing. If that takes long, it queries its database now and then. */
export async function think(sql, purchase) {
    await sleep(purchase.workMs);
    let isThinking = true;
    const thought = purchase.reach('inside').finally(() => (isThinking = false));
    await Promise.race([thought, sleep(STATEMENT_EVERY_MS)]);
    while (isThinking) {
        await sql('SELECT 1', []);
        await Promise.race([thought, sleep(STATEMENT_EVERY_MS)]);
    }
}
/** Rows are only ever added, so they are the truth about what was sold. */
export async function addPurchase(sql, purchase) {
    if (purchase.quantity === 0)
        return;
    await sql('INSERT INTO purchases (stock_id, pieces) VALUES ($1, $2)', [
        purchase.product,
        purchase.quantity,
    ]);
}
//# sourceMappingURL=shop.js.map