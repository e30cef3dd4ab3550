import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Scope,
  SetMetadata,
  type Type,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { LockConfigError, LockInterceptor } from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { startNest } from '../support/nest-app.js';

const Locked = (): MethodDecorator & ClassDecorator =>
  UseInterceptors(LockInterceptor(() => 'stock:1'));

const start = (module: { providers?: Type[]; controllers?: Type[] }): Promise<unknown> =>
  startNest({ imports: [LockTestingModule.forRoot()], ...module });

/** Nest does not call it for the methods of providers either. */
class Guard {
  canActivate(): boolean {
    return true;
  }
}

@Injectable()
class OnMethod {
  @UseGuards(Guard)
  @UseInterceptors(LockInterceptor('stock:<params.id>'))
  take(): void {}
}

@Locked()
@Injectable({ scope: Scope.REQUEST })
class OnClass {
  take(): void {}
}

abstract class Base {
  @Locked()
  take(): void {}
}

@Injectable()
class Inherits extends Base {}

describe('a LockInterceptor on a method of a provider', () => {
  it('is refused, because Nest would never run it', async () => {
    const started = start({ providers: [OnMethod] });
    await expect(started).rejects.toThrow(LockConfigError);
    await expect(started).rejects.toThrow(
      /^Cannot lock OnMethod.take with LockInterceptor\('stock:<params.id>'\): Nest runs interceptors only where a request arrives, and none arrives at this method, so it would never be locked; use @Locked there, or the interceptor on the route that calls it$/,
    );
  });

  it('is refused on a job, for which it is never run either', async () => {
    @Injectable()
    class Jobs {
      @Cron('* * * * *')
      @Locked()
      report(): void {}
    }
    await expect(start({ providers: [Jobs] })).rejects.toThrow('Cannot lock Jobs.report with');
  });

  it('is refused on a method of a controller that is no route', async () => {
    @Controller('stock')
    class Helper {
      @Get()
      take(): void {
        this.log();
      }

      @Locked()
      log(): void {}
    }
    await expect(start({ controllers: [Helper] })).rejects.toThrow('Cannot lock Helper.log with');
  });

  it.each([OnClass, Inherits])(
    'is refused on its class or its base class: %p',
    async (provider) => {
      const started = start({ providers: [provider] });
      await expect(started).rejects.toThrow(
        `Cannot lock ${provider.name}.take with LockInterceptor`,
      );
    },
  );
});

@Controller('stock')
class Routes extends Base {
  @Get()
  @Locked()
  override take(): void {}
}

@Locked()
@Controller('stock')
class RoutesAndHelper {
  @Get()
  take(): void {}

  log(): void {}
}

/** As the handlers of other packages are marked, which call their interceptors. */
@Injectable()
class MarkedMethod {
  @Locked()
  @SetMetadata('queue', 'stock')
  take(): void {}
}

@Locked()
@SetMetadata('queue', 'stock')
@Injectable()
class MarkedClass {
  take(): void {}
}

/** The other method is one that the handler calls. */
@Locked()
@Injectable()
class MarkedOnce {
  @SetMetadata('queue', 'stock')
  take(): void {}

  log(): void {}
}

it.each([
  ['a route', { controllers: [Routes] }],
  ['a controller', { controllers: [RoutesAndHelper] }],
  ['a method that another package has marked', { providers: [MarkedMethod] }],
  ['a class that another package has marked', { providers: [MarkedClass] }],
  ['a class with such a method and another', { providers: [MarkedOnce] }],
])('a LockInterceptor on %s is accepted', async (_, module) => {
  await expect(start(module)).resolves.toBeDefined();
});
