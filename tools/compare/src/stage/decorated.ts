import type { DynamicModule, INestApplicationContext, ModuleMetadata, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { RedisOptions } from 'ioredis';
import { RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { OURS } from '../packages.js';
import type { Side } from '../scenario.js';
import type { RedisServer } from './redis.js';

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
  return { library: OURS, settings, open: (server) => decorated(lock, ourModule(server)) };
}

export function ourModule(
  { url, port }: Pick<RedisServer, 'url' | 'port'>,
  options: Omit<RedisLockModuleOptions, 'connection'> = {},
  client?: RedisOptions,
): DynamicModule {
  const connection = client === undefined ? url : { host: '127.0.0.1', port, ...client };
  // Without the copy that a run makes, ours has types of another ioredis than the peers.
  return RedisLockModule.forRoot({ connection: connection as string, ...options });
}
