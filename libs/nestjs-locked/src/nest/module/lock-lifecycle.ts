import type { OnApplicationShutdown, OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import { seesTransactions } from '../../core/calls/transaction-registry.js';
import type { LockEngine } from '../../core/engine/lock-engine.js';
import { LockConfigError, LockStoreError } from '../../core/lock.errors.js';

export interface LifecycleOptions {
  /** How long closing may take, in milliseconds. @default 0, for locks in memory; `RedisLockModule` passes 10,000 */
  readonly shutdownMs?: number;
  /** Whether the application starts without Redis and connects later. @default false */
  readonly startWithoutRedis?: boolean;
}

/**
 * Opens and closes the locks with the life cycle of a Nest application. Connections are opened after all providers have
 * been created, so a failed start leaves none behind. At shutdown, new locks are refused first, while requests in
 * flight finish and their locks are renewed. Then remaining work is awaited, and the connections are closed last.
 */
export class LockLifecycle implements OnModuleInit, OnModuleDestroy, OnApplicationShutdown {
  readonly engine: LockEngine;
  readonly #options: LifecycleOptions;

  constructor(engine: LockEngine, options: LifecycleOptions = {}) {
    this.engine = engine;
    this.#options = options;
  }

  /**
   * @throws LockConfigError · LockStoreError if Redis cannot be reached and `startWithoutRedis` is off: the application
   * does not start
   */
  async onModuleInit(): Promise<void> {
    this.#assertTransactionsAreSeen();
    try {
      await this.engine.open();
    } catch (error) {
      const mayBeLate = this.#options.startWithoutRedis === true && error instanceof LockStoreError;
      if (!mayBeLate) throw error;
      this.engine.openLater(error);
    }
  }

  /** @throws LockConfigError if an option needs a lock-aware adapter, and there is none */
  #assertTransactionsAreSeen(): void {
    const { fence, timeouts, insideTransaction } = this.engine.inTransactions.transactionOptions;
    const asked = [
      ...(fence === undefined ? [] : ['fence']),
      // They are on with a fence, even if nobody has asked for them.
      ...(timeouts === undefined || fence !== undefined ? [] : ['transactionTimeouts']),
      ...(insideTransaction === 'reject' ? [] : ['insideTransaction']),
    ];
    if (asked.length === 0 || seesTransactions()) return;
    throw new LockConfigError(
      `Option ${asked.join(', ')} of RedisLockModule has no effect: the locks see no transactions; wrap the transactional adapter (lockAwareAdapter of nestjs-locked/nestjs-cls) or the DataSource (lockAwareDataSource of nestjs-locked/typeorm), open transactions through nestjs-locked/transactions, or leave the option out`,
    );
  }

  onModuleDestroy(): void {
    this.engine.drain();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.engine.close(this.#options.shutdownMs ?? 0);
  }
}
