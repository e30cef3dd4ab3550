import {
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { isMainThread } from 'node:worker_threads';
import { LOG_CONTEXT } from '../../core/log-context.js';

/** Shutdown hooks and signal listeners may be added after the application has started. */
const GRACE_MS = 10_000;

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const;

/** Applications already checked, so that several lock modules in one application warn only once. */
const checked = new WeakSet<ModulesContainer>();

/**
 * Warns once, ten seconds after the start, if nothing in this process listens to a signal that ends it. Without a
 * listener, a SIGTERM does not call `app.close()`, and every held lock stays until its lease expires.
 *
 * Any listener counts, so an application that handles signals in its own way is not warned. Nor are applications
 * created by @nestjs/testing, worker threads (which get no signals), and applications closed earlier.
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
  new Logger(LOG_CONTEXT).warn(
    'Nothing listens to SIGTERM: a deployment will leave held locks to run out with their leases; call app.enableShutdownHooks()',
  );
}

/** Recognized by the name of the root module that @nestjs/testing creates. */
function isTest(modules: ModulesContainer): boolean {
  return [...modules.values()].some(({ metatype }) => metatype?.name === 'RootTestModule');
}
