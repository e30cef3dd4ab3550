import { Inject } from '@nestjs/common';
import { hasLockRunner, LOCK_RUNNER, type LockRunner } from '../../core/engine/lock-runner.js';
import { LockConfigError } from '../../core/lock.errors.js';
import { lockServiceProperty, lockServiceToken } from './lock-service.token.js';

/**
 * Makes Nest inject the lock service into every instance of a class, as a hidden property: once per class and service,
 * even if a class has ten locked methods or a base class has some.
 *
 * The property is an accessor that stores the service as non-enumerable, so that it appears neither in logs nor in
 * copies and comparisons of the instance. The service of an instance that cannot be extended, such as a frozen one, is
 * kept in a map.
 */
export function requestLockService(target: object, serviceName: string | undefined): void {
  const property = lockServiceProperty(serviceName);
  if (property in target) return;
  const ofFixed = new WeakMap<object, unknown>();
  Object.defineProperty(target, property, {
    configurable: true,
    get(this: object) {
      return ofFixed.get(this);
    },
    set(this: object, service: unknown) {
      if (!Object.isExtensible(this)) {
        ofFixed.set(this, service);
        return;
      }
      Object.defineProperty(this, property, { value: service, configurable: true, writable: true });
    },
  });
  // An object decorated by hand has no class into which Nest could inject.
  const { constructor } = target as { constructor?: { prototype?: unknown } };
  if (constructor?.prototype === target) Inject(lockServiceToken(serviceName))(target, property);
}

/**
 * Finds the runner that takes the locks of an instance.
 *
 * @returns a function that throws LockConfigError if the instance has no lock service, or something else instead, such
 * as null
 */
export function findLockRunner(
  serviceName: string | undefined,
  callSite: string,
): (instance: unknown) => LockRunner {
  const property = lockServiceProperty(serviceName);
  return (instance) => lockRunnerOf(instance, property, serviceName, callSite);
}

function lockRunnerOf(
  instance: unknown,
  property: symbol,
  serviceName: string | undefined,
  callSite: string,
): LockRunner {
  if (typeof instance !== 'object' || instance === null) {
    throw new LockConfigError(
      `Cannot lock ${callSite}: it was called without its instance; call it as a method, or bind it first`,
    );
  }
  const service: unknown = Reflect.get(instance, property);
  if (service !== undefined) return runnerOf(service, callSite);
  const options = serviceName === undefined ? '' : `{ name: '${serviceName}' }`;
  throw new LockConfigError(
    `Cannot lock ${callSite}: this instance has no LockService: Nest did not create it, a factory created it for one request, or the call came too early (in the constructor, or before the application has started); provide the class, import RedisLockModule.forRoot(${options}) in the root module, or in a unit test use withTestLocks(new ${instance.constructor?.name ?? 'Service'}(...)) from 'nestjs-locked/testing'`,
  );
}

/** @param service the provided value, possibly a mock @throws LockConfigError if it is not a real lock service */
export function runnerOf(service: unknown, callSite: string): LockRunner {
  if (hasLockRunner(service)) return service[LOCK_RUNNER];
  throw new LockConfigError(
    `Cannot lock ${callSite}: LockService is mocked; use LockTestingModule or withTestLocks from nestjs-locked/testing`,
  );
}
