import type { OnApplicationShutdown, OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import { seesTransactions } from '../../core/calls/transaction-registry.js';
import type { LockEngine } from '../../core/engine/lock-engine.js';
import { LockConfigError, LockStoreError } from '../../core/lock.errors.js';

export interface LifecycleOptions {
  /** How long closing may take, in milliseconds. @default 0 */
  readonly shutdownMs?: number;
  /** Whether the application starts without Redis, and looks for it later. @default false */
  readonly startWithoutRedis?: boolean;
}

/**
 * Opens and closes the locks in the order in which Nest starts and ends an application. Nothing is connected before
 * everything could be made, so a start that fails leaves no connection behind. At the end, nothing new is granted at
 * first, while requests in flight finish and their locks are renewed. Then the work that is left is waited for, and
 * Redis is closed last.
 */
export class LockLifecycle implements OnModuleInit, OnModuleDestroy, OnApplicationShutdown {
  readonly engine: LockEngine;
  readonly #options: LifecycleOptions;

  constructor(engine: LockEngine, options: LifecycleOptions = {}) {
    this.engine = engine;
    this.#options = options;
  }

  /**
   * @throws LockConfigError · LockStoreError if Redis cannot be reached: the application does not start, unless that is
   * allowed
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

  /** @throws LockConfigError if an option asks for what only a lock-aware adapter can do, and there is none */
  #assertTransactionsAreSeen(): void {
    const { fence, timeouts, insideTransaction } = this.engine.inTransactions.transactionOptions;
    const asked = [
      ...(fence === undefined ? [] : ['fence']),
      ...(timeouts === undefined ? [] : ['transactionTimeouts']),
      ...(insideTransaction === 'reject' ? [] : ['insideTransaction']),
    ];
    if (asked.length === 0 || seesTransactions()) return;
    throw new LockConfigError(
      `Option ${asked.join(', ')} of RedisLockModule would do nothing: no transaction is seen; wrap the transactional adapter (lockAwareAdapter of nestjs-locked/nestjs-cls) or the DataSource (lockAwareDataSource of nestjs-locked/typeorm), open transactions through nestjs-locked/transactions, or leave the option out`,
    );
  }

  onModuleDestroy(): void {
    this.engine.drain();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.engine.close(this.#options.shutdownMs ?? 0);
  }
}
