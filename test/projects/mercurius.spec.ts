/** Locks behind resolvers of Mercurius, asked over HTTP. */
import { describe, expect, it } from '@jest/globals';
import { Logger, UseInterceptors } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { Args, GraphQLModule, ID, Mutation, Query, Resolver } from '@nestjs/graphql';
import { MercuriusDriver, type MercuriusDriverConfig } from '@nestjs/mercurius';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { LockExceptionFilter, LockInterceptor, LockKeyError } from 'nestjs-locked';
import { LockTestingModule, TestLocks } from 'nestjs-locked/testing';
import { request } from 'node:http';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { startHttp } from '../support/nest-app.js';
import { RecordingLogger } from '../support/recording-logger.js';

let ran = 0;

@Resolver()
class StockResolver {
  @Query(() => Boolean)
  isOpen(): boolean {
    return true;
  }

  @Mutation(() => String)
  @UseInterceptors(LockInterceptor('stock:<args.id>', { waitMs: 0 }))
  take(@Args('id', { type: () => ID }) id: string): string {
    return id;
  }

  @Mutation(() => String)
  @UseInterceptors(LockInterceptor('stock:<args.id>', { waitMs: 60_000 }))
  takeSlowly(@Args('id', { type: () => ID }) id: string): string {
    ran += 1;
    return id;
  }

  @Mutation(() => String)
  fail(): string {
    throw new LockKeyError('secret');
  }
}

async function startShop(config: MercuriusDriverConfig = {}) {
  const locks = new TestLocks();
  const { url } = await startHttp(
    {
      imports: [
        LockTestingModule.forRoot({ locks }),
        GraphQLModule.forRoot<MercuriusDriverConfig>({
          driver: MercuriusDriver,
          autoSchemaFile: true,
          ...config,
        }),
      ],
      providers: [
        StockResolver,
        { provide: APP_FILTER, useValue: new LockExceptionFilter({ retryAfterSeconds: 7 }) },
      ],
    },
    undefined,
    new FastifyAdapter(),
  );
  const mutate = async (field: string): Promise<unknown[]> => {
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: `mutation { ${field} }` }),
    });
    return [response.status, response.headers.get('retry-after'), jsonOf(await response.text())];
  };
  return { locks, url, mutate };
}

/** A text that is no JSON is shown as it is. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const BUSY = {
  data: null,
  errors: [
    {
      message: 'In use, try again',
      path: ['take'],
      locations: expect.anything(),
      extensions: { code: 'LOCK_NOT_ACQUIRED', retryAfterMs: 7_000 },
    },
  ],
};

describe.each<[string, MercuriusDriverConfig]>([
  ['', {}],
  [' whose responses are compiled', { jit: 1 }],
  [' with a context of its own', { context: () => ({ user: 'ann' }) }],
])('Mercurius%s', (_, config) => {
  it('answers a busy call like Apollo Server, then the next one succeeds', async () => {
    const { locks, mutate } = await startShop(config);
    const other = locks.hold('stock:42');
    expect(await mutate('take(id: "42")')).toEqual([200, '7', BUSY]);
    expect(await mutate('take(id: "42")')).toEqual([200, '7', BUSY]);
    other.release();
    expect(await mutate('take(id: "42")')).toEqual([200, null, { data: { take: '42' } }]);
  });

  it('answers a mistake of the application without its message', async () => {
    const { mutate } = await startShop(config);
    expect(await mutate('fail')).toMatchObject([
      200,
      null,
      {
        errors: [{ message: 'Internal Server Error', extensions: { code: 'LOCK_KEY_INVALID' } }],
      },
    ]);
  });
});

it('runs no mutation for a client that has left while it waited', async () => {
  ran = 0;
  const { locks, url } = await startShop();
  const log = new RecordingLogger();
  Logger.overrideLogger(log);
  afterTest(() => Logger.overrideLogger(false));
  const other = locks.hold('stock:42');
  const asking = request(`${url}/graphql`, {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'application/json' },
  });
  asking.on('error', () => {}); // left
  asking.end(JSON.stringify({ query: 'mutation { takeSlowly(id: "42") }' }));
  await locks.untilWaiting('stock:42');
  asking.destroy();
  await eventually(() => expect(locks.calls).toMatchObject([{ outcome: 'aborted' }]));
  other.release();
  locks.hold('stock:42').release();
  expect(ran).toBe(0);
  expect(log.lines('ExceptionsHandler')).toEqual([]);
});
