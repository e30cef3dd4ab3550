import type { InjectionToken, Provider } from '@nestjs/common';
import { LockService } from './lock.service.js';
import { lockServiceToken } from './lock-service.token.js';
import { LockedInstances } from './locked-instances.js';
import type { LockShutdown } from './lock-shutdown.js';

/**
 * What a lock module consists of, whatever its store is.
 *
 * @param open makes the engine, from the providers named in `inject`
 */
export function lockProviders<Args extends unknown[]>(
  name: string | undefined,
  open: (...args: Args) => LockShutdown | Promise<LockShutdown>,
  inject: InjectionToken[] = [],
): { providers: Provider[]; exports: InjectionToken[] } {
  const token = lockServiceToken(name);
  const shutdown = Symbol('LockShutdown');
  const providers: Provider[] = [
    { provide: shutdown, inject, useFactory: open },
    ...serviceProviders(name, shutdown),
    LockedInstances,
  ];
  return { providers, exports: name === undefined ? [token, LockService] : [token] };
}

/**
 * The class is the provider and the token leads to it, so that a test that overrides `LockService` overrides what
 * `@Locked` gets, too. A named service has no class of its own.
 */
function serviceProviders(name: string | undefined, shutdown: InjectionToken): Provider[] {
  const useFactory = ({ engine }: LockShutdown): LockService => new LockService(engine);
  const token = lockServiceToken(name);
  if (name !== undefined) return [{ provide: token, inject: [shutdown], useFactory }];
  return [
    { provide: LockService, inject: [shutdown], useFactory },
    { provide: token, useExisting: LockService },
  ];
}
