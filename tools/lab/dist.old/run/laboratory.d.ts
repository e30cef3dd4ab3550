import type { Redis } from 'ioredis';
import { ProcessPool } from './process-pool.js';
import type { KeyEvent, Stock } from './trial.js';
/** What all trials share: one Redis, one PostgreSQL, and processes that are reused. */
export declare class Laboratory {
    #private;
    readonly seed: number;
    private readonly redisServer;
    private readonly postgres;
    private readonly database;
    readonly redis: Redis;
    readonly pool: ProcessPool;
    private constructor();
    static open(seed: number): Promise<Laboratory>;
    get redisUrl(): string;
    get databaseUrl(): string;
    setStock(product: string, pieces: number): Promise<void>;
    stockOf(product: string, start: number): Promise<Stock>;
    /** How many transactions other connections have open. */
    openTransactions(product: string): Promise<number>;
    /** Calls `listen` when the key is set, removed, or expires in a Redis that is watched. */
    onKey(key: string, listen: (kind: KeyEvent['kind']) => void): () => Promise<void>;
    watchKeys(url: string): Promise<() => Promise<void>>;
    close(): Promise<void>;
}
//# sourceMappingURL=laboratory.d.ts.map