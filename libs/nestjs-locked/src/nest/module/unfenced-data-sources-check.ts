import { Inject, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { types } from 'node:util';
import { openLocks } from '../../core/calls/transaction-registry.js';
import { LOG_CONTEXT } from '../../core/log-context.js';

/** Set by `lockAwareDataSource`, and by `lockAwareAdapter` on the methods object of the adapter. */
const LOCK_AWARE = Symbol.for('nestjs-locked/LockAwareDataSource');

/** Applications already checked, so that several lock modules in one application warn only once. */
const checked = new WeakSet<ModulesContainer>();

/**
 * Warns at start, once for each, of TypeORM data sources and `@nestjs-cls/transactional` adapters that are not
 * lock-aware although the fence is on for every connection: their transactions under a lock would not be claimed.
 */
@Injectable()
export class UnfencedDataSourcesCheck implements OnApplicationBootstrap {
  readonly #modules: ModulesContainer;

  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    this.#modules = modules;
  }

  onApplicationBootstrap(): void {
    // The lock services are open by now. If connections are named, the others are excluded on purpose.
    const isOnEverywhere = [...openLocks()].some(({ transactionOptions: { fence } }) => {
      return fence !== undefined && fence.connections === undefined;
    });
    if (!isOnEverywhere || checked.has(this.#modules)) return;
    checked.add(this.#modules);
    for (const { what, remedy } of this.#unfenced().values()) {
      new Logger(LOG_CONTEXT).warn(
        `${what} is not lock-aware: its transactions and statements under a lock are not fenced; wrap it with ${remedy}, or name the connections that have a fence table in fence.connections`,
      );
    }
  }

  /** Each once, although several modules may provide the same data source under different tokens. */
  #unfenced(): Map<object, Transactional> {
    const found = new Map<object, Transactional>();
    for (const { providers } of this.#modules.values()) {
      const all = [...(providers.values() as Iterable<{ readonly instance: unknown }>)].flatMap(
        ({ instance }) => recognized(instance) ?? [],
      );
      // The plug-in has a module for each adapter, with its connection. A data source covers the transactions that its
      // adapter opens.
      const dataSources = all.filter(({ isDataSource }) => isDataSource);
      for (const one of dataSources.length > 0 ? dataSources : all) {
        if (!one.isLockAware) found.set(one.instance, one);
      }
    }
    return found;
  }
}

/** A data source or adapter, which opens transactions. */
interface Transactional {
  readonly instance: object;
  readonly isDataSource: boolean;
  readonly isLockAware: boolean;
  readonly what: string;
  /** The function that makes it lock-aware, and its package. */
  readonly remedy: string;
}

interface DataSource {
  readonly options: { readonly type?: unknown };
  readonly driver?: { readonly database?: unknown };
}

/** The object that the plug-in makes from an adapter for its transaction host. */
interface Adapter {
  readonly connectionName?: string;
}

/** Getters may throw; such an instance counts as unrecognized. */
function recognized(instance: unknown): Transactional | undefined {
  if (typeof instance !== 'object' || instance === null || types.isProxy(instance))
    return undefined;
  try {
    const isLockAware = LOCK_AWARE in instance;
    if (isDataSource(instance)) {
      return {
        instance,
        isDataSource: true,
        isLockAware,
        what: describeDataSource(instance),
        remedy: 'lockAwareDataSource of nestjs-locked/typeorm',
      };
    }
    if (isAdapter(instance)) {
      return {
        instance,
        isDataSource: false,
        isLockAware,
        what: `An adapter of @nestjs-cls/transactional (connection '${instance.connectionName ?? 'default'}')`,
        remedy: 'lockAwareAdapter of nestjs-locked/nestjs-cls',
      };
    }
    return undefined;
  } catch {
    return undefined;
  }
}

function describeDataSource({ options, driver }: DataSource): string {
  const name = typeof driver?.database === 'string' ? `, database '${driver.database}'` : '';
  return `A data source of TypeORM (${String(options.type)}${name})`;
}

/** Reads no other property, because the instance may be anything. */
function isDataSource(value: object): value is DataSource {
  const candidate = value as Record<string, unknown>;
  return (
    typeof candidate.createQueryRunner === 'function' &&
    typeof candidate.manager === 'object' &&
    typeof candidate.options === 'object'
  );
}

function isAdapter(value: object): value is Adapter {
  const candidate = value as Record<string, unknown>;
  return (
    typeof candidate.wrapWithTransaction === 'function' &&
    typeof candidate.getFallbackInstance === 'function'
  );
}
