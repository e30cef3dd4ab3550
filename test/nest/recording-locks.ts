import { type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import {
  type HasLockRunner,
  LOCK_RUNNER,
} from '../../libs/nestjs-locked/src/core/engine/lock-runner.js';
import { LockAbortedError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import type { LockKeys, WithLockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import {
  lockServiceProperty,
  lockServiceToken,
} from '../../libs/nestjs-locked/src/nest/decorator/lock-service.token.js';
import { LockedInstances } from '../../libs/nestjs-locked/src/nest/decorator/locked-instances.js';
import { makeGate } from '../support/gate.js';

/** A lock service without Redis: it really excludes inside this process, and records what it does. */
export class RecordingLocks implements HasLockRunner {
  /** `lock stock:1`, `unlock stock:1`, and entries of the test. */
  readonly events: string[] = [];
  readonly calls: { keys: readonly string[]; options: WithLockOptions }[] = [];
  readonly #tails = new Map<string, Promise<void>>();

  readonly [LOCK_RUNNER] = {
    withLock: async <T>(
      asked: LockKeys,
      options: WithLockOptions,
      work: (lock: Lock) => T | Promise<T>,
    ): Promise<T> => {
      const keys = [asked].flat();
      this.calls.push({ keys, options });
      const releases: (() => void)[] = [];
      for (const key of keys) releases.push(await this.#enter(key));
      const name = keys.join(' ');
      try {
        if (options.signal?.aborted === true) throw new LockAbortedError('aborted', name);
        this.events.push(`lock ${name}`);
        try {
          return await work({ key: name } as Lock);
        } finally {
          // The release takes a moment, as it does with Redis.
          await new Promise((resolve) => setImmediate(resolve));
          this.events.push(`unlock ${name}`);
        }
      } finally {
        for (const release of releases) release();
      }
    },
  };

  async #enter(key: string): Promise<() => void> {
    const before = this.#tails.get(key);
    const { opened, open } = makeGate();
    this.#tails.set(key, opened);
    await before;
    return open;
  }

  /** What was requested, call by call. */
  get keys(): string[] {
    return this.calls.map(({ keys }) => keys.join(' '));
  }

  /** Takes a key and keeps it until the returned function is called. */
  hold(key: string): Promise<() => void> {
    return new Promise((entered) => {
      void this[LOCK_RUNNER].withLock(key, {}, () => new Promise<void>(entered));
    });
  }

  /** Gives the locks to an instance that Nest did not make. */
  give<T extends object>(instance: T, name?: string): T {
    Reflect.set(instance, lockServiceProperty(name), this);
    return instance;
  }
}

/** The parts of a lock module that `@Locked` needs, around recording locks. */
@Module({})
export class RecordingLockModule {
  static with(locks: unknown, name?: string): DynamicModule {
    return {
      module: RecordingLockModule,
      global: true,
      imports: [DiscoveryModule],
      providers: [{ provide: lockServiceToken(name), useValue: locks }, LockedInstances],
      exports: [lockServiceToken(name)],
    };
  }
}
