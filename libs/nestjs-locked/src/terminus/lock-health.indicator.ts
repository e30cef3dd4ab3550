import { Inject, Injectable, Optional } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { type HealthIndicatorResult, HealthIndicatorService } from '@nestjs/terminus';
import { LockConfigError, LockStoreError } from '../core/lock.errors.js';
import { type HasLockHealth, hasLockHealth, LOCK_HEALTH } from '../core/lock-health.js';
import { assertOptions, withDefaults } from '../core/option.js';
import { describeValue } from '../core/runtime/shown-value.js';
import { atMost } from '../core/time/at-most.js';
import { systemClock } from '../core/time/clock.js';
import { findLockService, noLockModule } from '../nest/decorator/find-lock-service.js';
import { detailsOf } from './lock-health.details.js';
import { HEALTH_OPTIONS, type LockHealthOptions } from './lock-health.options.js';

/**
 * Tells `@nestjs/terminus` whether locks can be taken. Add it to the providers of a module that imports
 * `TerminusModule`.
 *
 * @example
 * @Get('health')
 * @HealthCheck()
 * check() {
 *   return this.health.check([() => this.locks.isHealthy('locks')]);
 * }
 */
@Injectable()
export class LockHealthIndicator {
  readonly #indicators: HealthIndicatorService;
  readonly #modules: ModuleRef;

  /** Called by Nest. @throws LockConfigError without `TerminusModule` */
  constructor(
    @Optional() @Inject(HealthIndicatorService) indicators: HealthIndicatorService | undefined,
    @Inject(ModuleRef) modules: ModuleRef,
  ) {
    if (indicators === undefined) {
      throw new LockConfigError(
        'Cannot check the health of the locks: there is no HealthIndicatorService; import TerminusModule in the module that provides LockHealthIndicator',
      );
    }
    this.#indicators = indicators;
    this.#modules = modules;
  }

  /**
   * Down, with `message` and `code`, if `LockService.ping` fails: Redis is away, no messages arrive from it, or it
   * refuses what the locks need. Also down if there is no answer within `timeoutMs`. Otherwise up, with the details
   * `pingMs` and `warnings`.
   *
   * @param key the name in the answer
   * @throws LockConfigError for a wrong option, or if there is no such lock module
   */
  async isHealthy<const Key extends string>(
    key: Key,
    options: LockHealthOptions = {},
  ): Promise<HealthIndicatorResult<Key>> {
    assertResultKey(key);
    assertOptions(HEALTH_OPTIONS, options);
    const { timeoutMs } = withDefaults(HEALTH_OPTIONS, options);
    const locks = this.#locksOf(options.service);
    const indicator = this.#indicators.check(key);
    try {
      const health = await atMost(systemClock, timeoutMs, locks[LOCK_HEALTH]());
      if (health !== undefined) return indicator.up(detailsOf(health));
      throw new LockStoreError(`Redis has not answered within ${timeoutMs} ms`);
    } catch (error) {
      return indicator.down(failureOf(error));
    }
  }

  /** Looked up at each check, in any module: which services are checked is known only from the calls. */
  #locksOf(name: string | undefined): HasLockHealth {
    const locks = findLockService(this.#modules, name);
    if (hasLockHealth(locks)) return locks;
    throw new LockConfigError(
      locks === undefined
        ? `Cannot check the health of the locks: ${noLockModule(name)}`
        : 'Cannot check the health of the locks: LockService is mocked; use LockTestingModule of nestjs-locked/testing, or mock LockHealthIndicator',
    );
  }
}

function assertResultKey(key: unknown): void {
  if (typeof key === 'string' && key !== '') return;
  throw new LockConfigError(
    `Cannot check the health of the locks as ${describeValue(key)}: the first argument is the name in the answer, such as isHealthy('locks')`,
  );
}

function failureOf(error: unknown): { message: string; code?: string } {
  if (!(error instanceof Error)) return { message: String(error) };
  const { message, code } = error as Error & { code?: string };
  return code === undefined ? { message } : { message, code };
}
