/** The hint in the log of an application whose lock errors no exception filter handles. */
import { describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  type ExceptionFilter,
  Get,
  type INestApplication,
  Logger,
  type Provider,
  UseFilters,
} from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import { GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import {
  ClientProxyFactory,
  MessagePattern,
  type MicroserviceOptions,
  Transport,
} from '@nestjs/microservices';
import {
  LockError,
  LockExceptionFilter,
  LockKeyError,
  LockNotAcquiredError,
  LockStoreError,
} from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { lastValueFrom } from 'rxjs';
import type { Server } from 'node:net';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { afterTest } from '../support/after-test.js';
import { startHttp } from '../support/nest-app.js';
import { RecordingLogger } from '../support/recording-logger.js';

const hint = (code: string, answer: string): string =>
  `warn No exception filter handles lock errors, so a client got an internal error for ${code}; add { provide: APP_FILTER, useClass: LockExceptionFilter } to the providers of the root module (over HTTP, it answers ${answer}, and never the key)`;

@Controller()
class StockController {
  @Get('busy')
  @MessagePattern('busy')
  busy(): void {
    throw new LockNotAcquiredError('secret', 'secret', 20);
  }

  @Get('away')
  away(): void {
    throw new LockStoreError('secret', 'secret');
  }

  @Get('wrong')
  wrong(): void {
    throw new LockKeyError('secret');
  }

  @Get('other')
  other(): void {
    throw new Error('sold out');
  }
}

@Controller('filtering')
@UseFilters(LockExceptionFilter)
class FilteringController {
  @Get('busy')
  busy(): void {
    throw new LockNotAcquiredError('secret', 'secret', 20);
  }
}

@Resolver()
class StockResolver {
  @Query(() => Boolean)
  busy(): boolean {
    throw new LockNotAcquiredError('secret', 'secret', 20);
  }
}

@Catch()
class EveryFilter implements ExceptionFilter {
  catch(_error: unknown, host: ArgumentsHost): void {
    host.switchToHttp().getResponse<{ sendStatus(status: number): void }>().sendStatus(418);
  }
}

@Catch(LockError)
class OwnFilter extends EveryFilter {}

async function startShop(
  providers: Provider[] = [],
  configure?: (app: INestApplication) => unknown,
) {
  const { app, url } = await startHttp(
    {
      imports: [
        LockTestingModule.forRoot(),
        LockTestingModule.forRoot({ name: 'billing' }),
        GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, autoSchemaFile: true }),
      ],
      controllers: [StockController, FilteringController],
      providers: [StockResolver, ...providers],
    },
    configure,
  );
  const log = new RecordingLogger();
  Logger.overrideLogger(log);
  afterTest(() => Logger.overrideLogger(false));
  const status = async (path: string): Promise<number> => (await fetch(`${url}/${path}`)).status;
  return { app, url, log, status };
}

describe('without a filter', () => {
  it.each([
    ['busy', hint('LOCK_NOT_ACQUIRED', '423 with Retry-After')],
    ['away', hint('LOCK_STORE_FAILED', '503 with Retry-After')],
    ['wrong', hint('LOCK_KEY_INVALID', '500')],
  ])('%s is answered as before, and the log says once what to register', async (path, line) => {
    const { log, status } = await startShop();
    expect([await status(path), await status(path), await status('busy')]).toEqual([500, 500, 500]);
    expect(log.lines(LOG_CONTEXT)).toEqual([line]);
    expect(log.lines('ExceptionsHandler')).toHaveLength(3);
  });

  it('nothing is said about other errors', async () => {
    const { log, status } = await startShop();
    expect(await status('other')).toBe(500);
    expect(log.lines(LOG_CONTEXT)).toEqual([]);
  });

  it('a microservice says it, too', async () => {
    const log = new RecordingLogger();
    const app = await NestFactory.createMicroservice<MicroserviceOptions>(
      {
        module: class Root {},
        imports: [LockTestingModule.forRoot()],
        controllers: [StockController],
      },
      { transport: Transport.TCP, options: { host: '127.0.0.1', port: 0 }, logger: log },
    );
    afterTest(() => app.close());
    await app.listen();
    const { port } = app.unwrap<Server>().address() as { port: number };
    const service = ClientProxyFactory.create({
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port },
    });
    afterTest(() => service.close());
    await expect(lastValueFrom(service.send('busy', {}))).rejects.toMatchObject({
      message: 'Internal server error',
    });
    expect(log.lines(LOG_CONTEXT)).toEqual([hint('LOCK_NOT_ACQUIRED', '423 with Retry-After')]);
  });

  it('GraphQL says it, too', async () => {
    const { log, url } = await startShop();
    await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"query":"{ busy }"}',
    });
    expect(log.lines(LOG_CONTEXT)).toEqual([hint('LOCK_NOT_ACQUIRED', '423 with Retry-After')]);
  });
});

it.each<[string, number, Provider[], ((app: INestApplication) => unknown)?]>([
  ['of the module', 423, [{ provide: APP_FILTER, useClass: LockExceptionFilter }]],
  ['of the application', 423, [], (app) => app.useGlobalFilters(new LockExceptionFilter())],
  ['of its own', 418, [{ provide: APP_FILTER, useClass: OwnFilter }]],
  ['for everything', 418, [], (app) => app.useGlobalFilters(new EveryFilter())],
])('nothing is said with a filter %s', async (...[, expected, providers, configure]) => {
  // Jest would take a fourth parameter for its `done`.
  const { log, status } = await startShop(providers, configure);
  expect(await status('busy')).toBe(expected);
  expect(log.lines(LOG_CONTEXT)).toEqual([]);
});

it('a filter of one controller says nothing about the others', async () => {
  const { log, status } = await startShop();
  expect(await status('filtering/busy')).toBe(423);
  expect(log.lines(LOG_CONTEXT)).toEqual([]);
  expect(await status('busy')).toBe(500);
  expect(log.lines(LOG_CONTEXT)).toHaveLength(1);
});
