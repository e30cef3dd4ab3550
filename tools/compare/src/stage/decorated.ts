import type * as NestRedlock from '@anchan828/nest-redlock';
import type { DynamicModule, INestApplicationContext, ModuleMetadata, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { createRequire } from 'node:module';
import type { PeerSide, Side } from '../scenario.js';
import { connect, type RedisServer } from './redis.js';

/** What stands above a method that is locked. */
export type LockDecorator = (target: object, name: string, descriptor: PropertyDescriptor) => void;

/** A lock as a decorator, and the applications in which it works. */
export interface Decorated {
  readonly lock: LockDecorator;
  /** Starts an application with this service. */
  start<T>(service: Type<T>, ...imports: DynamicModule[]): Promise<T>;
  /** Starts one with this controller on HTTP. @returns where it can be reached */
  serve(controller: Type): Promise<string>;
}

/** A Nest application without a port. */
export function startApplication(metadata: ModuleMetadata): Promise<INestApplicationContext> {
  return NestFactory.createApplicationContext({ module: class Root {}, ...metadata }, QUIET);
}

const QUIET = { logger: false, abortOnError: false } as const;

export function decorated(lock: LockDecorator, ...modules: DynamicModule[]): Decorated {
  return {
    lock,
    async start(service, ...imports) {
      const app = await startApplication({
        imports: [...modules, ...imports],
        providers: [service],
      });
      return app.get(service);
    },
    async serve(controller) {
      const root = { module: class Root {}, imports: modules, controllers: [controller] };
      const app = await NestFactory.create(root, QUIET);
      await app.listen(0, '127.0.0.1');
      return app.getUrl();
    },
  };
}

/** The decorator of a library that has none: `hold` runs the method under its lock. */
export function around<Args extends unknown[]>(
  hold: (work: () => Promise<void>, ...args: Args) => Promise<unknown>,
): LockDecorator {
  return (_target, _name, descriptor) => {
    const method = descriptor.value as (...args: Args) => Promise<void>;
    descriptor.value = function (...args: Args) {
      return hold(() => method.apply(this, args), ...args);
    };
  };
}

/** Our side, with `@Locked`. */
export function ours(lock: LockDecorator, settings = 'The defaults.'): Side<Decorated> {
  return { settings, open: (server) => decorated(lock, ourModule(server)) };
}

export function ourModule(
  { url }: RedisServer,
  options: Omit<RedisLockModuleOptions, 'connection'> = {},
): DynamicModule {
  return RedisLockModule.forRoot({ connection: url, ...options });
}

/** What differs from the README of a peer. */
interface Deviations<Options> {
  readonly settings?: string;
  readonly note?: string;
  readonly options?: Options;
}

/** A peer with a decorator and a module, which is set up as its README does it. */
interface NestPeer<Library, Options> {
  (
    lock: (library: Library) => LockDecorator,
    deviations?: Deviations<Options>,
  ): PeerSide<Decorated>;
  readonly library: string;
  /** What `module` sets up, in the words of the page. */
  readonly settings: string;
  load(): Promise<Library>;
  module(server: RedisServer, options?: Options): Promise<DynamicModule>;
}

function nestPeer<Library, Options = never>(
  peer: Pick<NestPeer<Library, Options>, 'library' | 'settings' | 'load' | 'module'>,
): NestPeer<Library, Options> {
  const side = (
    lock: (library: Library) => LockDecorator,
    { settings = peer.settings, note, options }: Deviations<Options> = {},
  ): PeerSide<Decorated> => ({
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
  readonly lockKeyPrefix?: 'custom';
}

export const murlock = nestPeer({
  library: 'murlock',
  settings: 'README: `wait: 1000`, `maxAttempts: 3`.',
  load: () => import('murlock'),
  async module({ url }, options: MurLockOptions = {}) {
    const { MurLockModule } = await import('murlock');
    const readme = { wait: 1000, maxAttempts: 3, logLevel: 'error' } as const;
    return MurLockModule.forRoot({ redisOptions: { url }, ...readme, ...options });
  },
});

export const nestjsRedis = nestPeer({
  library: '@nestjs-redis/lock',
  settings: 'README: one client, defaults (3 tries, 200 to 300 ms apart).',
  load: () => import('@nestjs-redis/lock'),
  async module({ url }) {
    const { RedlockModule } = await import('@nestjs-redis/lock');
    const { createClient } = await import('redis');
    const client = await createClient({ url }).connect();
    return RedlockModule.forRoot({ clients: [client as never] });
  },
});

export const universal = nestPeer({
  library: 'nestjs-redlock-universal',
  settings: 'README: `defaultTtl: 30000`, `retryAttempts: 3`, `retryDelay: 200`.',
  load: () => import('nestjs-redlock-universal'),
  async module(server) {
    const { RedlockModule, IoredisAdapter } = await import('nestjs-redlock-universal');
    return RedlockModule.forRoot({
      nodes: [new IoredisAdapter(await connect(server))],
      defaultTtl: 30_000,
      retryAttempts: 3,
      retryDelay: 200,
    });
  },
});

/** The build for ES modules cannot be imported, which is a scenario of its own. */
const loadNestRedlock = async (): Promise<typeof NestRedlock> =>
  createRequire(import.meta.url)('@anchan828/nest-redlock') as typeof NestRedlock;

export const nestRedlock = nestPeer({
  library: '@anchan828/nest-redlock',
  settings: 'README: `retryCount: 10`, `retryDelay: 200`, `retryJitter: 200`.',
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
