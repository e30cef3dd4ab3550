/** Locks behind resolvers, asked over HTTP through Apollo. */
import { describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { type ExecutionContext, Injectable, UseFilters, UseInterceptors } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { Args, GraphQLModule, ID, Mutation, Query, Resolver } from '@nestjs/graphql';
import {
  Locked,
  LockExceptionFilter,
  type LockExceptionFilterOptions,
  LockInterceptor,
  lockKey,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { afterTest } from '../support/after-test.js';
import { whileBusy } from '../support/busy-lock.js';
import { startHttp, startNest } from '../support/nest-app.js';
import { startRedisServer } from '../support/own-redis.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();

@Injectable()
class Stock {
  @Locked('stock:<id>', { waitMs: 20 })
  async take(id: string): Promise<string> {
    return id;
  }
}

interface HeadersOf {
  readonly headers: Record<string, string>;
}

@Resolver()
class StockResolver {
  constructor(private readonly stock: Stock) {}

  @Query(() => Boolean)
  isOpen(): boolean {
    return true;
  }

  @Mutation(() => String)
  take(@Args('id', { type: () => ID }) id: string): Promise<string> {
    return this.stock.take(id);
  }

  @Mutation(() => String, { nullable: true })
  @UseInterceptors(LockInterceptor('stock:<args.id>', { waitMs: 20 }))
  async reserve(@Args('id', { type: () => ID }) id: string): Promise<string> {
    return id;
  }

  @Mutation(() => String, { nullable: true })
  @UseInterceptors(LockInterceptor('stock:<args.id>', { waitMs: 0, onBusy: 'skip' }))
  skip(@Args('id', { type: () => ID }) id: string): string {
    return id;
  }

  @Mutation(() => String, { nullable: true })
  @UseInterceptors(LockInterceptor('user:<user.id>', { waitMs: 20 }))
  mine(): string {
    return 'mine';
  }

  @Mutation(() => String, { nullable: true })
  @UseInterceptors(LockInterceptor('tenant:<headers.X-Tenant>', { waitMs: 20 }))
  ofTenant(): string {
    return 'sold';
  }

  @Mutation(() => String, { nullable: true })
  @UseInterceptors(
    LockInterceptor((request: HeadersOf, context: ExecutionContext) => {
      const { id } = context.getArgs<[unknown, { id: string }]>()[1];
      return lockKey`stock:${request.headers['x-tenant'] ?? ''}:${id}`;
    }),
  )
  computed(@Args('id', { type: () => ID }) id: string): string {
    return id;
  }
}

@Resolver()
@UseFilters(LockExceptionFilter)
class FilteringResolver {
  constructor(private readonly stock: Stock) {}

  @Mutation(() => String, { nullable: true })
  takeFiltered(@Args('id', { type: () => ID }) id: string): Promise<string> {
    return this.stock.take(id);
  }

  @Mutation(() => String, { nullable: true })
  @UseInterceptors(LockInterceptor('stock:<args.id>', { waitMs: 20 }))
  async reserveFiltered(@Args('id', { type: () => ID }) id: string): Promise<string> {
    return id;
  }
}

interface Parts {
  /** Of the filter of the application; undefined if there is none. */
  readonly filter?: LockExceptionFilterOptions | undefined;
  readonly config?: ApolloDriverConfig;
  readonly url?: string;
}

async function startShop(parts: Parts = {}) {
  const { filter, config, url = redis.url } = { filter: {}, ...parts };
  const useValue = filter && new LockExceptionFilter(filter);
  const { app, url: address } = await startHttp({
    imports: [
      RedisLockModule.forRoot({ connection: url, leaseMs: 1_000 }),
      GraphQLModule.forRoot<ApolloDriverConfig>({
        driver: ApolloDriver,
        autoSchemaFile: true,
        graphiql: false,
        context: ({ req }: { req: HeadersOf & { user?: object } }) => {
          const token = req.headers['authorization'];
          if (token !== undefined) req.user = { id: token };
          return { req };
        },
        ...config,
      }),
    ],
    providers: [
      Stock,
      StockResolver,
      FilteringResolver,
      ...(useValue ? [{ provide: APP_FILTER, useValue }] : []),
    ],
  });
  const mutate = async (field: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${address}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ query: `mutation { ${field} }` }),
    });
    const text = await response.text();
    const { data, errors } = JSON.parse(text) as {
      data: unknown;
      errors?: { message: string; extensions: Record<string, unknown> }[];
    };
    const retryAfter = response.headers.get('retry-after');
    return { status: response.status, retryAfter, text, data, error: errors?.[0] };
  };
  return { locks: app.get(LockService), mutate };
}

const BUSY = {
  message: 'In use, try again',
  extensions: { code: 'LOCK_NOT_ACQUIRED', retryAfterMs: 1_000 },
};

describe('a resolver', () => {
  it.each([
    ['of the resolver', undefined, ['takeFiltered', 'reserveFiltered']],
    ['of the application', {}, ['take', 'reserve']],
  ])('with the filter %s answers a busy call, then the next', async (_, filter, fields) => {
    const { locks, mutate } = await startShop({ filter });
    const id = uniqueKey();
    for (const field of fields) {
      await whileBusy(locks, `stock:${id}`, async () => {
        const { error, text } = await mutate(`${field}(id: "${id}")`);
        expect(error).toMatchObject(BUSY);
        expect(error?.extensions).not.toHaveProperty('http');
        expect(text).not.toContain(id);
      });
      expect((await mutate(`${field}(id: "${id}")`)).data).toEqual({ [field]: id });
    }
  });

  it('is answered with the status of the filter, if the driver passes it on', async () => {
    const id = uniqueKey();
    const statusWhileBusy = async (config: ApolloDriverConfig): Promise<unknown[]> => {
      const { locks, mutate } = await startShop({
        filter: { statuses: { LOCK_NOT_ACQUIRED: 409 }, retryAfterSeconds: 7 },
        config,
      });
      const answers: unknown[] = [];
      await whileBusy(locks, `stock:${id}`, async () => {
        const { status, retryAfter, error } = await mutate(`take(id: "${id}")`);
        answers.push(status, retryAfter, error?.extensions['code']);
      });
      return answers;
    };
    expect(await statusWhileBusy({})).toEqual([200, '7', 'LOCK_NOT_ACQUIRED']);
    expect(await statusWhileBusy({ preserveHttpStatusForExecutionErrors: false })).toEqual([
      409,
      '7',
      'LOCK_NOT_ACQUIRED',
    ]);
  });

  it('is answered while Redis does not answer', async () => {
    const server = await startRedisServer();
    const { mutate } = await startShop({ url: server.url });
    const id = uniqueKey();
    expect((await mutate(`take(id: "${id}")`)).data).toEqual({ take: id });
    afterTest(() => server.resume());
    server.pause();
    const { error, text } = await mutate(`take(id: "${id}")`);
    expect(error).toMatchObject({
      message: 'Locks are unavailable, try again',
      extensions: { code: 'LOCK_STORE_FAILED', retryAfterMs: 1_000 },
    });
    expect(text).not.toContain(id);
  });

  it('shows nothing about a mistake of the application', async () => {
    const { mutate } = await startShop();
    const { error, text } = await mutate('mine');
    expect(error).toMatchObject({
      message: 'Internal Server Error',
      extensions: { code: 'LOCK_KEY_INVALID' },
    });
    expect(text).not.toContain('user.id');
  });

  it('is skipped with null', async () => {
    const { locks, mutate } = await startShop();
    const id = uniqueKey();
    await whileBusy(locks, `stock:${id}`, async () => {
      expect((await mutate(`skip(id: "${id}")`)).data).toEqual({ skip: null });
    });
    expect((await mutate(`skip(id: "${id}")`)).data).toEqual({ skip: id });
  });

  it('can be locked by the user and the headers of its request', async () => {
    const { locks, mutate } = await startShop();
    const id = uniqueKey();
    const headers = { authorization: id, 'x-tenant': id };
    for (const [key, field] of [
      [`user:${id}`, 'mine'],
      [`tenant:${id}`, 'ofTenant'],
    ] as const) {
      await whileBusy(locks, key, async () => {
        expect((await mutate(field, headers)).error).toMatchObject(BUSY);
      });
      expect((await mutate(field, headers)).error).toBeUndefined();
    }
  });

  it('can be locked by a function of the request and the context', async () => {
    const { locks, mutate } = await startShop();
    const id = uniqueKey();
    const call = (): ReturnType<typeof mutate> =>
      mutate(`computed(id: "${id}")`, { 'x-tenant': 'a' });
    const lock = await locks.acquire(`stock:a:${id}`);
    const waiting = call();
    await lock.release();
    expect((await waiting).data).toEqual({ computed: id });
    // Without the header, `lockKey` refuses the empty value; the error names the route, but not to the client.
    expect((await mutate(`computed(id: "${id}")`)).error).toMatchObject({
      extensions: { code: 'LOCK_KEY_INVALID' },
    });
  });

  it('keeps the application from starting if the template does not begin with its arguments', async () => {
    @Resolver()
    class WrongResolver {
      @Query(() => String)
      @UseInterceptors(LockInterceptor('stock:<body.id>'))
      read(): string {
        return 'stock';
      }
    }
    const start = startNest({
      imports: [RedisLockModule.forRoot({ connection: redis.url })],
      providers: [WrongResolver],
    });
    await expect(start).rejects.toThrow(
      "Cannot lock WrongResolver.read with LockInterceptor('stock:<body.id>'): a GraphQL request has no 'body'; begin with args, headers or user",
    );
  });
});
