import { Inject, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { types } from 'node:util';
import { locksInUse } from '../../core/calls/transaction-registry.js';
import { LOG_CONTEXT } from '../../core/log-context.js';

/** Set by `lockAware`, of the data source or of the adapter that opens transactions on it. */
const LOCK_AWARE = Symbol.for('nestjs-locked/LockAwareDataSource');

/** Applications that were examined, so that several lock modules in one application warn only once. */
const checked = new WeakSet<ModulesContainer>();

/**
 * Warns at start, once for each, of TypeORM data sources that are not lock-aware while the fence is on for every
 * connection: a transaction that is opened on one of them under a lock would not be claimed.
 */
@Injectable()
export class UnfencedDataSourcesCheck implements OnApplicationBootstrap {
  readonly #modules: ModulesContainer;

  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    this.#modules = modules;
  }

  onApplicationBootstrap(): void {
    // The lock services are open by now. Where connections are named, the others are left out on purpose.
    const isOnEverywhere = [...locksInUse()].some(({ transactionOptions: { fence } }) => {
      return fence !== undefined && fence.connections === undefined;
    });
    if (!isOnEverywhere || checked.has(this.#modules)) return;
    checked.add(this.#modules);
    for (const type of new Set(this.#unfenced().values())) {
      new Logger(LOG_CONTEXT).warn(
        `A data source of TypeORM (${type}) is not lock-aware: its transactions and statements under a lock are not fenced; wrap it with lockAware of nestjs-locked/typeorm, or name the connections that have a fence table in fence.connections`,
      );
    }
  }

  /** Each with the kind of its database. */
  #unfenced(): Map<object, string> {
    const found = new Map<object, string>();
    for (const { providers } of this.#modules.values()) {
      for (const { instance } of providers.values() as Iterable<{ readonly instance: unknown }>) {
        if (isDataSource(instance) && !(LOCK_AWARE in instance)) {
          found.set(instance, String(instance.options.type));
        }
      }
    }
    return found;
  }
}

interface DataSourceLike {
  readonly createQueryRunner?: unknown;
  readonly manager?: unknown;
  readonly options: { readonly type?: unknown } | undefined;
}

/** Nothing else is read of other instances: a proxy may refuse it, and a getter may do anything. */
function isDataSource(value: unknown): value is DataSourceLike & { options: object } {
  if (typeof value !== 'object' || value === null || types.isProxy(value)) return false;
  const candidate = value as DataSourceLike;
  return (
    typeof candidate.createQueryRunner === 'function' &&
    typeof candidate.manager === 'object' &&
    typeof candidate.options === 'object'
  );
}
