import type { OnApplicationShutdown, OnModuleDestroy } from '@nestjs/common';
import type { LockEngine } from '../core/lock-engine.js';

/**
 * Closes the locks in the order in which Nest closes an application: first nothing new is granted, while requests in
 * flight finish and their locks are renewed; then what is left is waited for, and Redis is closed last.
 */
export class LockShutdown implements OnModuleDestroy, OnApplicationShutdown {
  readonly engine: LockEngine;
  readonly #graceMs: number;

  constructor(engine: LockEngine, graceMs: number) {
    this.engine = engine;
    this.#graceMs = graceMs;
  }

  onModuleDestroy(): void {
    this.engine.drain();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.engine.close(this.#graceMs);
  }
}
