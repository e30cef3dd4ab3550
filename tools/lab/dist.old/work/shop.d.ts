import type pg from 'pg';
import { type Purchase } from './purchase.js';
/** What a transaction of `pg` and the entity manager of TypeORM have in common. */
export type Sql = (text: string, values: readonly unknown[]) => Promise<Record<string, unknown>[]>;
export declare const TABLES = "\n  CREATE TABLE stocks (id text PRIMARY KEY, name text NOT NULL, stokenum integer NOT NULL, version integer NOT NULL DEFAULT 0);\n  CREATE TABLE purchases (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, stock_id text NOT NULL, pieces integer NOT NULL)";
/** Runs `work` in a transaction on one connection of the pool. */
export declare function inTransaction<T>(pool: pg.Pool, work: (sql: Sql) => Promise<T>): Promise<T>;
/** The common work: read, think for a moment, write. It is right only if nobody else gets in between. */
export declare function takePieces(sql: Sql, purchase: Purchase, suffix?: string): Promise<void>;
export declare function readStock(sql: Sql, purchase: Purchase, suffix?: string): Promise<{
    stokenum: number;
    version: number;
}>;
/** What an application does between reading and writing. If that takes long, it queries its database now and then. */
export declare function think(sql: Sql, purchase: Purchase): Promise<void>;
/** Rows are only ever added, so they are the truth about what was sold. */
export declare function addPurchase(sql: Sql, purchase: Purchase): Promise<void>;
//# sourceMappingURL=shop.d.ts.map