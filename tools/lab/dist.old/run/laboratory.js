import { PostgresServer } from 'dev-servers';
import { createFenceTable } from 'nestjs-locked/transactions';
import pg from 'pg';
import { TABLES } from '../work/shop.js';
import { ProcessPool } from './process-pool.js';
import { observe, startRedis } from './servers.js';
/** What all trials share: one Redis, one PostgreSQL, and processes that are reused. */
export class Laboratory {
    seed;
    redisServer;
    postgres;
    database;
    redis;
    pool = new ProcessPool();
    #listeners = new Map();
    #subscribers = [];
    constructor(seed, redisServer, postgres, database, redis) {
        this.seed = seed;
        this.redisServer = redisServer;
        this.postgres = postgres;
        this.database = database;
        this.redis = redis;
    }
    static async open(seed) {
        const [redisServer, postgres] = await Promise.all([
            startRedis(),
            PostgresServer.start({ settings: { max_connections: '300' } }),
        ]);
        const database = new pg.Pool({ connectionString: postgres.url, max: 4 });
        database.on('error', () => { });
        await database.query(TABLES);
        await createFenceTable((sql) => database.query(sql), { dialect: 'postgres' });
        const lab = new Laboratory(seed, redisServer, postgres, database, observe(redisServer.url));
        await lab.watchKeys(redisServer.url);
        return lab;
    }
    get redisUrl() {
        return this.redisServer.url;
    }
    get databaseUrl() {
        return this.postgres.url;
    }
    async setStock(product, pieces) {
        await this.database.query(`INSERT INTO stocks (id, name, stokenum) VALUES ($1, $1, $2)
       ON CONFLICT (id) DO NOTHING`, [product, pieces]);
    }
    async stockOf(product, start) {
        const { rows } = await this.database.query(`SELECT stokenum AS left,
              (SELECT coalesce(sum(pieces), 0)::integer FROM purchases WHERE stock_id = $1) AS sold
         FROM stocks WHERE id = $1`, [product]);
        return { start, left: rows[0]?.left ?? NaN, sold: rows[0]?.sold ?? NaN };
    }
    /** How many transactions other connections have open. */
    async openTransactions(product) {
        const { rows } = await this.database.query(`SELECT count(*)::integer FROM pg_stat_activity
        WHERE application_name = $1 AND xact_start IS NOT NULL`, [product]);
        return rows[0]?.count ?? 0;
    }
    /** Calls `listen` when the key is set, removed, or expires in a Redis that is watched. */
    onKey(key, listen) {
        this.#listeners.set(key, listen);
        return async () => void this.#listeners.delete(key);
    }
    async watchKeys(url) {
        const subscriber = observe(url);
        this.#subscribers.push(subscriber);
        const prefix = '__keyspace@0__:';
        subscriber.on('pmessage', (_pattern, channel, event) => {
            const kind = KINDS[event];
            if (kind !== undefined)
                this.#listeners.get(channel.slice(prefix.length))?.(kind);
        });
        await subscriber.psubscribe(`${prefix}lock:*`);
        return async () => subscriber.disconnect();
    }
    async close() {
        await this.pool.close();
        for (const redis of [this.redis, ...this.#subscribers])
            redis.disconnect();
        await this.database.end();
        await Promise.all([this.redisServer.stop(), this.postgres.stop()]);
    }
}
const KINDS = {
    set: 'set',
    setnx: 'set',
    hincrby: 'set',
    del: 'removed',
    expired: 'expired',
};
//# sourceMappingURL=laboratory.js.map