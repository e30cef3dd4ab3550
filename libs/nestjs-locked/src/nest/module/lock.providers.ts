import type { InjectionToken, Provider } from '@nestjs/common';
import { lockServiceToken } from '../decorator/lock-service.token.js';
import { LockedInstances } from '../decorator/locked-instances.js';
import { LockService } from '../lock.service.js';
import { EventPatterns } from '../requests/event-patterns.js';
import { EnhancersCheck } from './enhancers-check.js';
import type { LockLifecycle } from './lock-lifecycle.js';
import { UnansweredErrors } from './unanswered-errors.js';

/**
 * The providers of a lock module, for any store.
 *
 * @param makeLocks makes the locks from the providers named in `inject`
 */
export function lockProviders<Args extends unknown[]>(
  name: string | undefined,
  makeLocks: (...args: Args) => LockLifecycle | Promise<LockLifecycle>,
  inject: InjectionToken[] = [],
): { providers: Provider[]; exports: InjectionToken[] } {
  const token = lockServiceToken(name);
  const lifecycle = Symbol('LockLifecycle');
  const providers: Provider[] = [
    EnhancersCheck,
    LockedInstances, // checks before anything is connected
    EventPatterns,
    UnansweredErrors,
    { provide: lifecycle, inject, useFactory: makeLocks },
    ...serviceProviders(name, lifecycle),
  ];
  return { providers, exports: name === undefined ? [token, LockService] : [token] };
}

/**
 * The class is the provider and the token an alias of it, so a test that overrides `LockService` also overrides it for
 * `@Locked`. A named service has only the token.
 */
function serviceProviders(name: string | undefined, lifecycle: InjectionToken): Provider[] {
  const useFactory = ({ engine }: LockLifecycle): LockService => new LockService(engine);
  const token = lockServiceToken(name);
  if (name !== undefined) return [{ provide: token, inject: [lifecycle], useFactory }];
  return [
    { provide: LockService, inject: [lifecycle], useFactory },
    { provide: token, useExisting: LockService },
  ];
}
