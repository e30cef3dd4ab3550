import { isMainThread } from 'node:worker_threads';
import {
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';

/** Hooks may also be enabled, and signals listened to, when the application already runs. */
const GRACE_MS = 10_000;

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const;

/** Applications that were looked at: several lock modules in one say it once. */
const checked = new WeakSet<ModulesContainer>();

/**
 * Warns, once and ten seconds after the start, when nothing in this process listens to a signal that ends it. Then
 * nobody calls `app.close()` for a SIGTERM, and every lock that is held stays until its lease has run out.
 *
 * Any listener counts: who handles signals in a way of his own is not warned. Neither are applications made by
 * @nestjs/testing, threads (which get no signals), and applications that are closed sooner.
 */
@Injectable()
export class ShutdownHooksCheck implements OnApplicationBootstrap, OnModuleDestroy {
  readonly #modules: ModulesContainer;
  #timer: NodeJS.Timeout | undefined;

  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    this.#modules = modules;
  }

  onApplicationBootstrap(): void {
    if (!isMainThread || checked.has(this.#modules) || isTest(this.#modules)) return;
    checked.add(this.#modules);
    this.#timer = setTimeout(() => warnIfDeaf(), GRACE_MS);
    this.#timer.unref();
  }

  onModuleDestroy(): void {
    clearTimeout(this.#timer);
  }
}

function warnIfDeaf(): void {
  if (SIGNALS.some((signal) => process.listenerCount(signal) > 0)) return;
  new Logger('RedisLockModule').warn(
    'Nothing listens to SIGTERM: a deployment will leave held locks to run out with their leases; call app.enableShutdownHooks()',
  );
}

/** By the name that @nestjs/testing gives to the root module it makes. */
function isTest(modules: ModulesContainer): boolean {
  return [...modules.values()].some(({ metatype }) => metatype?.name === 'RootTestModule');
}
