import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Inject,
  Injectable,
  type NestInterceptor,
  type Type,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE, ApplicationConfig } from '@nestjs/core';
import { LockConfigError, Locked, LockExceptionFilter, LockInterceptor } from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { startHttp, startNest } from '../support/nest-app.js';

const interceptor = LockInterceptor('stock:<params.id>');
const NAME = "LockInterceptor('stock:<params.id>')";
const AS_INTERCEPTOR = `{ provide: APP_INTERCEPTOR, useClass: ${NAME} }`;
const AS_FILTER = '{ provide: APP_FILTER, useClass: LockExceptionFilter }';

/** As `app.useGlobalInterceptors` of Nest 11 does, and its like; that of Nest 12 refuses the class itself. */
function startWithGlobal(
  add: 'addGlobalInterceptor' | 'useGlobalFilters' | 'useGlobalGuards' | 'useGlobalPipes',
  enhancer: unknown,
  ...providers: object[]
): Promise<unknown> {
  @Injectable()
  class Adds {
    constructor(@Inject(ApplicationConfig) application: ApplicationConfig) {
      application[add](enhancer as never);
    }
  }
  return start({ providers: [Adds, ...providers] });
}

function start(module: { providers?: object[]; controllers?: Type[] }): Promise<unknown> {
  return startNest({ imports: [LockTestingModule.forRoot()], ...(module as object) });
}

async function expectRefusal(started: Promise<unknown>, message: string): Promise<void> {
  await expect(started).rejects.toThrow(LockConfigError);
  await expect(started).rejects.toThrow(message);
}

describe('a global enhancer', () => {
  it('is refused as a class, of which Nest would make no instance', async () => {
    await expectRefusal(
      startWithGlobal('addGlobalInterceptor', interceptor),
      `Cannot use ${NAME} in app.useGlobalInterceptors: it is a class, of which Nest makes no instance there; write ${AS_INTERCEPTOR} in the providers of a module`,
    );
    await expectRefusal(
      startWithGlobal('useGlobalFilters', LockExceptionFilter),
      `Cannot use LockExceptionFilter in app.useGlobalFilters: it is a class, of which Nest makes no instance there; write ${AS_FILTER} in the providers of a module`,
    );
  });

  it('is refused among filters, if it is an interceptor', async () => {
    await expectRefusal(
      startWithGlobal('useGlobalFilters', interceptor),
      `Cannot use ${NAME} in app.useGlobalFilters: it is an interceptor, which Nest would never run there; write ${AS_INTERCEPTOR} in the providers of a module`,
    );
  });

  // Nest 12 refuses these itself.
  it.each(['useGlobalGuards', 'useGlobalPipes'] as const)('is refused by %s', async (add) => {
    await expect(startWithGlobal(add, interceptor)).rejects.toThrow();
    await expect(startWithGlobal(add, new LockExceptionFilter())).rejects.toThrow();
  });

  it('is accepted where it belongs, beside those of others', async () => {
    const provider = { provide: APP_INTERCEPTOR, useClass: interceptor };
    for (const other of [{ intercept: () => undefined }, class {}]) {
      const started = startWithGlobal('addGlobalInterceptor', other, provider);
      await expect(started).resolves.toBeDefined();
    }
    const filter = { provide: APP_FILTER, useClass: LockExceptionFilter };
    const started = startWithGlobal('useGlobalFilters', new LockExceptionFilter(), filter);
    await expect(started).resolves.toBeDefined();
  });
});

describe('an enhancer under a token of Nest', () => {
  it('is refused as a filter, if it is an interceptor', async () => {
    await expectRefusal(
      start({ providers: [{ provide: APP_FILTER, useClass: interceptor }] }),
      `Cannot use ${NAME} as APP_FILTER: it is an interceptor, which Nest would never run there; write ${AS_INTERCEPTOR}`,
    );
  });

  // Nest 12 refuses these itself.
  it.each([
    ['APP_GUARD', { provide: APP_GUARD, useClass: interceptor }, NAME],
    ['APP_PIPE', { provide: APP_PIPE, useClass: interceptor }, NAME],
    [
      'APP_INTERCEPTOR',
      { provide: APP_INTERCEPTOR, useClass: LockExceptionFilter },
      'LockExceptionFilter',
    ],
  ])('is refused as %s', async (_, provider, name) => {
    await expect(start({ providers: [provider] })).rejects.toThrow(name);
  });
});

describe('an enhancer in a decorator', () => {
  @Controller('stock')
  class OnRoute {
    @UseFilters(interceptor)
    take(): void {}
  }

  @UseFilters(interceptor)
  @Controller('stock')
  class OnController {}

  @Controller('stock')
  class Guarded {
    @UseGuards(interceptor)
    take(): void {}
  }

  @Controller('stock')
  class Piped {
    @UsePipes(interceptor)
    take(): void {}
  }

  @UseInterceptors(LockExceptionFilter as never)
  @Controller('stock')
  class Filtered {}

  it.each<[Type, string, string]>([
    [OnRoute, 'OnRoute.take', '@UseFilters'],
    [OnController, 'OnController', '@UseFilters'],
    [Guarded, 'Guarded.take', '@UseGuards'],
    [Piped, 'Piped.take', '@UsePipes'],
  ])('is refused in that of another kind: %p', async (controller, on, decorator) => {
    await expectRefusal(
      start({ controllers: [controller] }),
      `Cannot use ${NAME} in ${decorator} of ${on}: it is an interceptor, which Nest would never run there; write @UseInterceptors(${NAME})`,
    );
  });

  it('is refused before Nest makes routes', async () => {
    const routes = { imports: [LockTestingModule.forRoot()], controllers: [OnRoute] };
    await expectRefusal(startHttp(routes), `Cannot use ${NAME} in @UseFilters of OnRoute.take`);
  });

  it('is refused if it is a decorator', async () => {
    @UseInterceptors(Locked('stock') as never)
    @Controller('stock')
    class Decorated {}
    await expect(start({ controllers: [Decorated] })).rejects.toThrow(
      'in the place of an interceptor: it can only be used on methods',
    );
  });

  it('is refused if it was made with new', async () => {
    const Interceptor = LockInterceptor('stock') as unknown as new () => NestInterceptor;
    @UseInterceptors(new Interceptor())
    @Controller('stock')
    class WithInstance {}
    await expectRefusal(
      start({ controllers: [WithInstance] }),
      'Cannot lock WithInstance: its LockInterceptor was made with new, so it has no LockService; name the class in @UseInterceptors',
    );
  });

  it('is refused if it is a filter among interceptors', async () => {
    await expectRefusal(
      start({ controllers: [Filtered] }),
      'Cannot use LockExceptionFilter in @UseInterceptors of Filtered: it is a filter, which Nest would never run there; write @UseFilters(LockExceptionFilter)',
    );
  });

  it('is accepted where it belongs', async () => {
    @UseFilters(LockExceptionFilter)
    @Controller('stock')
    class Fine {}
    await expect(start({ controllers: [Fine] })).resolves.toBeDefined();
  });
});
