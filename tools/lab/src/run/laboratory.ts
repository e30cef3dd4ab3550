import { PostgresServer, RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { TcpProxy } from 'kit';
import { createFenceTable } from 'nestjs-locked/transactions';
import pg from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import { TABLES } from '../work/shop.js';
import { ProcessPool } from './lab-process.js';
import type { KeyEvent, Stock } from './trial.js';

/** Redis itself says when a key was set, removed or expired, so that the observer is not the lock under test. */
const TELL_OF_KEYS = ['--notify-keyspace-events', 'Kg$hx'];

const KINDS: Readonly<Record<string, KeyEvent['kind']>> = {
  set: 'set',
  setnx: 'set',
  hincrby: 'set',
  del: 'removed',
  expired: 'expired',
};

/** What all trials share: one Redis, one PostgreSQL, and processes that are reused. */
export class Laboratory {
  readonly pool = new ProcessPool();
  readonly redis: Redis;
  readonly #listeners = new Map<string, (kind: KeyEvent['kind']) => void>();
  #stopWatching = (): void => {};

  private constructor(
    readonly seed: number,
    private readonly redisServer: RedisServer,
    private readonly postgres: PostgresServer,
    private readonly database: pg.Pool,
  ) {
    this.redis = observe(redisServer.url);
  }

  static async open(seed: number): Promise<Laboratory> {
    const [redisServer, postgres] = await Promise.all([
      startRedis(),
      PostgresServer.start({ settings: { max_connections: '300' } }),
    ]);
    const database = new pg.Pool({ connectionString: postgres.url, max: 4 });
    database.on('error', () => {});
    await database.query(TABLES);
    await createFenceTable((sql) => database.query(sql), { dialect: 'postgres' });
    const lab = new Laboratory(seed, redisServer, postgres, database);
    lab.#stopWatching = await lab.watchKeys(redisServer.url);
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

  /** Calls `listen` when the key is set, removed, or expires in a Redis that is watched. */
  onKey(key: string, listen: (kind: KeyEvent['kind']) => void): () => void {
    this.#listeners.set(key, listen);
    return () => this.#listeners.delete(key);
  }

  async watchKeys(url: string): Promise<() => void> {
    const subscriber = observe(url);
    const prefix = '__keyspace@0__:';
    subscriber.on('pmessage', (_pattern, channel: string, event: string) => {
      const kind = KINDS[event];
      if (kind !== undefined) this.#listeners.get(channel.slice(prefix.length))?.(kind);
    });
    await subscriber.psubscribe(`${prefix}lock:*`);
    return () => subscriber.disconnect();
  }

  async close(): Promise<void> {
    await this.pool.close();
    this.#stopWatching();
    this.redis.disconnect();
    await this.database.end();
    await Promise.all([this.redisServer.stop(), this.postgres.stop()]);
  }
}

export function startRedis(...args: string[]): Promise<RedisServer> {
  return RedisServer.start({ args: [...TELL_OF_KEYS, ...args] });
}

export function observe(url: string): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 100 });
  redis.on('error', () => {}); // servers are taken away on purpose
  return redis;
}

/** A main server with a replica behind one address, which moves to the replica when the main server is gone. */
export class ReplicatedRedis {
  private constructor(
    private readonly main: RedisServer,
    private readonly replica: RedisServer,
    private readonly proxy: TcpProxy,
  ) {}

  static async start(): Promise<ReplicatedRedis> {
    const main = await startRedis('--repl-diskless-sync-delay', '0');
    const replica = await startRedis('--replicaof', `127.0.0.1 ${main.port}`);
    const proxy = await new TcpProxy(main.port).open();
    await withRedis(main, async (redis) => {
      while (!(await redis.info('replication')).includes('state=online')) await sleep(20);
    });
    return new ReplicatedRedis(main, replica, proxy);
  }

  /** The address that the clients use. */
  get url(): string {
    return this.proxy.url;
  }

  /** From now on, nothing reaches the replica: it stands still, and its connection is cut. */
  async stopReplication(): Promise<void> {
    this.replica.pause();
    await withRedis(this.main, (redis) => redis.call('CLIENT', 'KILL', 'TYPE', 'replica'));
  }

  /** The main server dies, the replica takes its place, and the address moves. */
  async failOver(): Promise<void> {
    await this.main.kill();
    this.replica.resume();
    await withRedis(this.replica, (redis) => redis.call('REPLICAOF', 'NO', 'ONE'));
    this.proxy.leadTo(this.replica.port);
    this.proxy.cut();
  }

  async stop(): Promise<void> {
    await Promise.all([this.proxy.close(), this.main.stop(), this.replica.stop()]);
  }
}

async function withRedis<T>({ url }: RedisServer, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = observe(url);
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}
