import type * as NestRedlock from '@anchan828/nest-redlock';
import { type DynamicModule, Inject } from '@nestjs/common';
import { createRequire } from 'node:module';
import type { PlayedSide, Side } from '../scenario.js';
import { type Decorated, decorated, type LockDecorator } from './decorated.js';
import { connect, type RedisServer } from './redis.js';

/** What differs from the README of a peer. */
export interface Deviations<Options> {
  readonly settings?: string;
  readonly note?: string | undefined;
  readonly options?: Options;
}

/** A peer with a decorator and a module, which is set up as its README does it. */
interface NestPeer<Library, Options> {
  (lock: (library: Library) => LockDecorator, deviations?: Deviations<Options>): Side<Decorated>;
  readonly library: string;
  /** What `module` sets up, in the words of the page. */
  readonly settings: string;
  /** Its decorator for the key `stock:<id>`, or for the nearest to it that it can build. */
  readonly ofId: (library: Library) => LockDecorator;
  load(): Promise<Library>;
  module(server: RedisServer, options?: Options): Promise<DynamicModule>;
}

function nestPeer<Library, Options = never>(
  peer: Pick<NestPeer<Library, Options>, 'library' | 'settings' | 'ofId' | 'load' | 'module'>,
): NestPeer<Library, Options> {
  const side = (
    lock: (library: Library) => LockDecorator,
    { settings = peer.settings, note, options }: Deviations<Options> = {},
  ): Side<Decorated> => ({
    library: peer.library,
    settings,
    note,
    open: async (server) => decorated(lock(await peer.load()), await peer.module(server, options)),
  });
  return Object.assign(side, peer);
}

interface MurLockOptions {
  readonly wait?: number;
  readonly blocking?: boolean;
  readonly ignoreUnlockFail?: boolean;
  readonly lockKeyPrefix?: 'custom';
}

export const murlock = nestPeer({
  library: 'murlock',
  settings: 'README: `@MurLock(5000, …)`, `wait: 1000`, `maxAttempts: 3`.',
  ofId: ({ MurLock }) => MurLock(5000, 'id'),
  load: () => import('murlock'),
  async module({ url }, options: MurLockOptions = {}) {
    const { MurLockModule } = await import('murlock');
    const readme = { wait: 1000, maxAttempts: 3, logLevel: 'error' } as const;
    return MurLockModule.forRoot({ redisOptions: { url }, ...readme, ...options });
  },
});

interface NestjsRedisOptions {
  readonly maxRetryAttempts?: number;
}

export const nestjsRedis = nestPeer({
  library: '@nestjs-redis/lock',
  settings: 'README: `@Redlock(…, 5000)`, one client, defaults (3 tries, 200 to 300 ms apart).',
  ofId: ({ Redlock }) => Redlock('stock', 5000),
  load: () => import('@nestjs-redis/lock'),
  async module({ url }, redlockConfig?: NestjsRedisOptions) {
    const { RedlockModule } = await import('@nestjs-redis/lock');
    const { createClient } = await import('redis');
    const client = createClient({ url }).on('error', () => {});
    await client.connect();
    return RedlockModule.forRoot({
      clients: [client as never],
      ...(redlockConfig && { redlockConfig }),
    });
  },
});

interface UniversalOptions {
  readonly retryAttempts?: number;
}

export const universal = nestPeer({
  library: 'nestjs-redlock-universal',
  settings: 'README: `defaultTtl: 30000`, `retryAttempts: 3`, `retryDelay: 200`.',
  ofId: ({ Redlock }) => Redlock({ key: (id: string) => `stock:${id}` }),
  load: () => import('nestjs-redlock-universal'),
  async module(server, options: UniversalOptions = {}) {
    const { RedlockModule, IoredisAdapter } = await import('nestjs-redlock-universal');
    return RedlockModule.forRoot({
      nodes: [new IoredisAdapter(await connect(server))],
      defaultTtl: 30_000,
      retryAttempts: 3,
      retryDelay: 200,
      ...options,
    });
  },
});

/** The build for ES modules cannot be imported, which is a scenario of its own. */
const loadNestRedlock = async (): Promise<typeof NestRedlock> =>
  createRequire(import.meta.url)('@anchan828/nest-redlock') as typeof NestRedlock;

export const nestRedlock = nestPeer({
  library: '@anchan828/nest-redlock',
  settings: 'README: `duration: 1000`, `retryCount: 10`, `retryDelay: 200`, `retryJitter: 200`.',
  ofId: ({ Redlock }) => Redlock((_: unknown, id: string) => `stock:${id}`),
  load: loadNestRedlock,
  async module(server) {
    const { RedlockModule } = await loadNestRedlock();
    return RedlockModule.register({
      isGlobal: true,
      clients: [await connect(server)],
      settings: { driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 200 },
      duration: 1000,
    });
  },
});

export const simpleRedisLock = nestPeer({
  library: 'nestjs-simple-redis-lock',
  settings: 'README: `@RedisLock(…)` with the defaults (1 min, 600 tries, 100 ms apart).',
  ofId: (library) => withLockService(library.RedisLockService, library.RedisLock(OF_ID)),
  load: () => import('nestjs-simple-redis-lock'),
  async module({ port }) {
    const { RedisLockModule } = await import('nestjs-simple-redis-lock');
    const { RedisModule } = await import('@liaoliaots/nestjs-redis');
    return {
      module: class SimpleRedisLock {},
      global: true,
      imports: [
        RedisModule.forRoot({ config: { host: '127.0.0.1', port } }) as never,
        RedisLockModule.register({}) as never,
      ],
      exports: [RedisLockModule as never],
    };
  },
});

const OF_ID = (_: unknown, id: string): string => `stock:${id}`;

/** Its decorator wants the service to be a property of the instance. */
export function withLockService(service: unknown, lock: LockDecorator): LockDecorator {
  return (target, name, descriptor) => {
    Inject(service as never)(target, 'lockService');
    return lock(target, name, descriptor);
  };
}

const NEST_PEERS = { murlock, nestjsRedis, universal, nestRedlock, simpleRedisLock };

/** Each of them with its decorator for `stock:<id>`, as its README has it. */
export function nestPeers(
  expected: Partial<Readonly<Record<keyof typeof NEST_PEERS, PlayedSide<Decorated>['expected']>>>,
): PlayedSide<Decorated>[] {
  return Object.entries(expected).map(([name, outcome]) => {
    const peer = NEST_PEERS[name as keyof typeof NEST_PEERS] as NestPeer<unknown, never>;
    return { ...peer(peer.ofId), expected: outcome };
  });
}
