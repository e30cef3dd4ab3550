import { PostgresServer, type RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { createFenceTable } from 'nestjs-locked/transactions';
import pg from 'pg';
import { TABLES } from '../work/shop.js';
import { ProcessPool } from './process-pool.js';
import { observe, startRedis } from './servers.js';
import type { KeyEvent, Stock } from './trial.js';

/** What all trials share: one Redis, one PostgreSQL, and processes that are reused. */
export class Laboratory {
  readonly pool = new ProcessPool();
  readonly #listeners = new Map<string, (kind: KeyEvent['kind']) => void>();
  readonly #subscribers: Redis[] = [];

  private constructor(
    readonly seed: number,
    private readonly redisServer: RedisServer,
    private readonly postgres: PostgresServer,
    private readonly database: pg.Pool,
    readonly redis: Redis,
  ) {}

  static async open(seed: number): Promise<Laboratory> {
    const [redisServer, postgres] = await Promise.all([
      startRedis(),
      PostgresServer.start({ settings: { max_connections: '300' } }),
    ]);
    const database = new pg.Pool({ connectionString: postgres.url, max: 4 });
    database.on('error', () => {});
    await database.query(TABLES);
    await createFenceTable((sql) => database.query(sql), { dialect: 'postgres' });
    const lab = new Laboratory(seed, redisServer, postgres, database, observe(redisServer.url));
    await lab.watchKeys(redisServer.url);
    return lab;
  }

  get redisUrl(): string {
    return this.redisServer.url;
  }

  get databaseUrl(): string {
    return this.postgres.url;
  }

  async setStock(product: string, pieces: number): Promise<void> {
    await this.database.query(
      `INSERT INTO stocks (id, name, stokenum) VALUES ($1, $1, $2)
       ON CONFLICT (id) DO NOTHING`,
      [product, pieces],
    );
  }

  async stockOf(product: string, start: number): Promise<Stock> {
    const { rows } = await this.database.query<{ left: number; sold: number }>(
      `SELECT stokenum AS left,
              (SELECT coalesce(sum(pieces), 0)::integer FROM purchases WHERE stock_id = $1) AS sold
         FROM stocks WHERE id = $1`,
      [product],
    );
    return { start, left: rows[0]?.left ?? NaN, sold: rows[0]?.sold ?? NaN };
  }

  /** How many transactions other connections have open. */
  async openTransactions(product: string): Promise<number> {
    const { rows } = await this.database.query<{ count: number }>(
      `SELECT count(*)::integer FROM pg_stat_activity
        WHERE application_name = $1 AND xact_start IS NOT NULL`,
      [product],
    );
    return rows[0]?.count ?? 0;
  }

  /** Calls `listen` when the key is set, removed, or expires in a Redis that is watched. */
  onKey(key: string, listen: (kind: KeyEvent['kind']) => void): () => Promise<void> {
    this.#listeners.set(key, listen);
    return async () => void this.#listeners.delete(key);
  }

  async watchKeys(url: string): Promise<() => Promise<void>> {
    const subscriber = observe(url);
    this.#subscribers.push(subscriber);
    const prefix = '__keyspace@0__:';
    subscriber.on('pmessage', (_pattern, channel: string, event: string) => {
      const kind = KINDS[event];
      if (kind !== undefined) this.#listeners.get(channel.slice(prefix.length))?.(kind);
    });
    await subscriber.psubscribe(`${prefix}lock:*`);
    return async () => subscriber.disconnect();
  }

  async close(): Promise<void> {
    await this.pool.close();
    for (const redis of [this.redis, ...this.#subscribers]) redis.disconnect();
    await this.database.end();
    await Promise.all([this.redisServer.stop(), this.postgres.stop()]);
  }
}

const KINDS: Readonly<Record<string, KeyEvent['kind']>> = {
  set: 'set',
  setnx: 'set',
  hincrby: 'set',
  del: 'removed',
  expired: 'expired',
};
