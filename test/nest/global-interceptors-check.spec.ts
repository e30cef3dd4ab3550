import { describe, expect, it } from '@jest/globals';
import { Inject, Injectable, type NestInterceptor } from '@nestjs/common';
import { APP_INTERCEPTOR, ApplicationConfig } from '@nestjs/core';
import { LockConfigError, LockInterceptor } from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { startNest } from '../support/nest-app.js';

/** As `app.useGlobalInterceptors` of Nest 11 does; that of Nest 12 refuses the class itself. */
function startWithGlobal(interceptor: unknown, ...providers: object[]): Promise<unknown> {
  @Injectable()
  class Adds {
    constructor(@Inject(ApplicationConfig) application: ApplicationConfig) {
      application.addGlobalInterceptor(interceptor as NestInterceptor);
    }
  }
  return startNest({
    imports: [LockTestingModule.forRoot()],
    providers: [Adds, ...(providers as [])],
  });
}

describe('a global LockInterceptor', () => {
  it('is refused as a class, of which Nest would make no instance', async () => {
    const start = startWithGlobal(LockInterceptor('stock:<params.id>'));
    await expect(start).rejects.toThrow(LockConfigError);
    await expect(start).rejects.toThrow(
      "Cannot use LockInterceptor('stock:<params.id>') as a global interceptor: it is a class, of which Nest makes no instance there, so that no request would be locked; write { provide: APP_INTERCEPTOR, useClass: LockInterceptor('stock:<params.id>') } in the providers of a module instead",
    );
  });

  it('is accepted as a provider of Nest, beside instances and classes of others', async () => {
    const useClass = LockInterceptor('stock:<params.id>');
    const provider = { provide: APP_INTERCEPTOR, useClass };
    for (const other of [{ intercept: () => undefined }, class {}]) {
      await expect(startWithGlobal(other, provider)).resolves.toBeDefined();
    }
  });
});
