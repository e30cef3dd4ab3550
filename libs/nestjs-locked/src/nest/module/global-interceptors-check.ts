import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { LockConfigError } from '../../core/lock.errors.js';
import { isLockInterceptor } from '../requests/lock-interceptor-class.js';

/**
 * Refuses `app.useGlobalInterceptors(LockInterceptor(…))`: Nest expects an instance there, which it would have to make.
 * Nest 11 ignores the class, so that no request is locked.
 */
@Injectable()
export class GlobalInterceptorsCheck implements OnModuleInit {
  readonly #application: ApplicationConfig;

  constructor(@Inject(ApplicationConfig) application: ApplicationConfig) {
    this.#application = application;
  }

  /** @throws LockConfigError */
  onModuleInit(): void {
    for (const interceptor of this.#application.getGlobalInterceptors() as unknown[]) {
      if (!isLockInterceptor(interceptor)) continue;
      throw new LockConfigError(
        `Cannot use ${interceptor.name} as a global interceptor: it is a class, of which Nest makes no instance there, so that no request would be locked; write { provide: APP_INTERCEPTOR, useClass: ${interceptor.name} } in the providers of a module instead`,
      );
    }
  }
}
