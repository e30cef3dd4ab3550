import type { OnApplicationShutdown, OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import { seesTransactions } from '../../core/calls/transaction-registry.js';
import type { LockEngine } from '../../core/engine/lock-engine.js';
import { LockConfigError } from '../../core/lock.errors.js';

/**
 * Opens and closes the locks in the order in which Nest starts and ends an application. Nothing is connected before
 * everything could be made, so a start that fails leaves no connection behind. At the end, nothing new is granted at
 * first, while requests in flight finish and their locks are renewed. Then the work that is left is waited for, and
 * Redis is closed last.
 */
export class LockLifecycle implements OnModuleInit, OnModuleDestroy, OnApplicationShutdown {
  readonly engine: LockEngine;
  readonly #graceMs: number;

  constructor(engine: LockEngine, graceMs: number) {
    this.engine = engine;
    this.#graceMs = graceMs;
  }

  /** @throws LockConfigError · LockStoreError if Redis cannot be reached: the application does not start */
  async onModuleInit(): Promise<void> {
    this.#assertTransactionsAreSeen();
    await this.engine.open();
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
      `Option ${asked.join(', ')} of RedisLockModule would do nothing: no transaction is seen; wrap the transactional adapter (lockAware of nestjs-locked/nestjs-cls) or the DataSource (lockAware of nestjs-locked/typeorm), open transactions through nestjs-locked/transactions, or leave the option out`,
    );
  }

  onModuleDestroy(): void {
    this.engine.drain();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.engine.close(this.#graceMs);
  }
}
