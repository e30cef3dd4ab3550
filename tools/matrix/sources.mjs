/** The sources of the generated applications. What a user would write is written as a user would. */

/** A service with locks in every form, whose `busiest` says whether there were ever two inside. */
export const stockService = (extension = '') => `
import { Injectable } from '@nestjs/common';
import { Locked, KeyParam, lockKey, LockService } from 'nestjs-locked';

@Injectable()
export class StockService {
  private inside = 0;
  busiest = 0;

  constructor(private readonly locks: LockService) {}

  @Locked('stock:<id>')
  async take(id: string, quantity: number): Promise<number> {
    await this.work();
    return quantity;
  }

  @Locked('stock:<id>')
  async pack(@KeyParam('id') sku: string): Promise<void> {
    await this.work();
  }

  @Locked((sku: string) => lockKey\`stock:\${sku}\`)
  async move(sku: string): Promise<void> {
    await this.work();
  }

  async count(id: string): Promise<number> {
    return this.locks.withLock(lockKey\`stock:\${id}\`, async (lock) => {
      await this.work();
      return lock.fencingToken;
    });
  }

  async skip(id: string): Promise<boolean> {
    const lock = await this.locks.tryAcquire(lockKey\`stock:\${id}\`);
    await lock?.release();
    return lock === null;
  }

  private async work(): Promise<void> {
    this.busiest = Math.max(this.busiest, ++this.inside);
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.inside -= 1;
  }
}
${extension}`;

/** @param {string} connection the expression after \`connection:\` @param {string} imports for it */
export const appModule = (connection, imports = '', suffix = '.js') => `
import { Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-locked';
import { StockService } from './stock.service${suffix}';
${imports}

@Module({
  imports: [RedisLockModule.forRoot({ connection: ${connection}, leaseMs: 2_000 })],
  providers: [StockService],
  exports: [StockService],
})
export class AppModule {}
`;

/** Two applications in one process compete; prints \`exact\` when all went well. */
export const main = (suffix = '.js', end = '') => `
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { LockError } from 'nestjs-locked';
import { AppModule } from './app.module${suffix}';
import { StockService } from './stock.service${suffix}';

async function bootstrap(): Promise<void> {
  const options = { logger: ['error', 'warn'] as ('error' | 'warn')[], abortOnError: false };
  const apps = [
    await NestFactory.createApplicationContext(AppModule, options),
    await NestFactory.createApplicationContext(AppModule, options),
  ];
  const stocks = apps.map((app) => app.get(StockService));
  // The services of both applications count in one place.
  const [one] = stocks;
  const work = (one as unknown as { work: () => Promise<void> }).work.bind(one);
  for (const stock of stocks) Object.assign(stock, { work });
  const id = 'chair-' + process.pid;
  const calls = Array.from({ length: 24 }, async (_, n) => {
    const stock = stocks[n % 2] as StockService;
    if (n % 4 === 0) return stock.count(id);
    if (n % 4 === 1) return stock.move(id);
    if (n % 4 === 2) return stock.pack(id);
    return stock.take(id, 1);
  });
  await Promise.all(calls);
  const refusal: unknown = await stocks[0]?.take('', 1).catch((error: unknown) => error);
  for (const app of apps) await app.close();
  if (!(refusal instanceof LockError) || refusal.code !== 'LOCK_KEY_INVALID') throw refusal;
  if (one?.busiest !== 1) throw new Error('inside at once: ' + one?.busiest);
  console.log('exact');
}

bootstrap().then(
  () => { ${end} },
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
`;

/** Specs for Jest and for Vitest, which have the same names for the same things. */
export const spec = (suffix, imports = '') => `
import { Test } from '@nestjs/testing';
import { LockNotAcquiredError, LockService } from 'nestjs-locked';
import { LockTestingModule, withTestLocks } from 'nestjs-locked/testing';
import { AppModule } from './app.module${suffix}';
import { StockService } from './stock.service${suffix}';
${imports}

describe('StockService', () => {
  it('runs with locks in memory', async () => {
    const module = await Test.createTestingModule({
      imports: [LockTestingModule.forRoot()],
      providers: [StockService],
    }).compile();
    await module.init();
    const stock = module.get(StockService);
    await Promise.all(Array.from({ length: 8 }, () => stock.take('a', 1)));
    expect(stock.busiest).toBe(1);
    await module.close();
  });

  it('runs outside of Nest', async () => {
    const stock = withTestLocks(new StockService(undefined as never));
    expect(await stock.take('a', 3)).toBe(3);
  });

  it('excludes on a real Redis', async () => {
    const apps = await Promise.all(
      [1, 2].map(async () => {
        const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
        await module.init();
        return module;
      }),
    );
    const [first, second] = apps.map((app) => app.get(LockService));
    await first!.withLock('spec', async () => {
      const busy = await second!.withLock('spec', { waitMs: 0 }, () => 1).catch((error) => error);
      expect(busy).toBeInstanceOf(LockNotAcquiredError);
    });
    for (const app of apps) await app.close();
  });
});
`;

/** Every entry point that needs no further peer, and types that are not \`any\`. */
export const consumer = `
import { Injectable, Module } from '@nestjs/common';
import { Redis } from 'ioredis';
import {
  Locked, LockError, LockExceptionFilter, LockInterceptor, KeyParam, lockKey, LockService, RedisLockModule,
  type Lock, type LockErrorCode,
} from 'nestjs-locked';
import { LockTestingModule, withTestLocks } from 'nestjs-locked/testing';

@Injectable()
export class StockService {
  constructor(readonly locks: LockService) {}

  @Locked('stock:<id>')
  async take(id: string, quantity: number): Promise<number> {
    return id.length + quantity;
  }

  @Locked((id: string) => lockKey\`stock:\${id}\`)
  async put(@KeyParam('id') id: string): Promise<void> {}

  // @ts-expect-error the call becomes asynchronous
  @Locked('stock:<id>')
  find(id: string): number {
    return id.length;
  }

  async use(error: unknown): Promise<LockErrorCode | undefined> {
    const count: number = await this.locks.withLock('a', async (lock: Lock) => lock.fencingToken);
    await using lock = await this.locks.acquire('b', { waitMs: count });
    lock.assertHeld();
    // @ts-expect-error the key is a text
    await this.locks.withLock(42, () => undefined);
    return error instanceof LockError ? error.code : undefined;
  }
}

@Module({
  imports: [
    RedisLockModule.forRoot({ connection: new Redis('redis://localhost:6379', { lazyConnect: true }) }),
    LockTestingModule.forRoot(),
  ],
  providers: [StockService, LockExceptionFilter],
})
export class AppModule {}

export const taken: Promise<number> = withTestLocks(new StockService(undefined as never)).take('a', 1);
export const interceptor = LockInterceptor('order:<params.id>');
`;

/** An application with the dashboard, on Express and on Fastify, with the health check and with OpenTelemetry. */
export const operators = `
import 'reflect-metadata';
import { Controller, Get, Module } from '@nestjs/common';
import { type AbstractHttpAdapter, NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { LockDashboardModule } from 'nestjs-locked/dashboard';
import { instrumentLocks } from 'nestjs-locked/opentelemetry';
import { LockHealthIndicator } from 'nestjs-locked/terminus';

@Controller()
class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly locks: LockHealthIndicator,
  ) {}

  @Get('health')
  @HealthCheck()
  check() {
    return this.health.check([() => this.locks.isHealthy('locks')]);
  }
}

@Module({
  imports: [
    TerminusModule,
    RedisLockModule.forRoot({ connection: process.env['REDIS_URL'] as string }),
    LockDashboardModule.register({ path: '/locks', authorize: () => 'admin' }),
  ],
  controllers: [HealthController],
  providers: [LockHealthIndicator],
})
class AppModule {}

async function tryOn(adapter: AbstractHttpAdapter): Promise<void> {
  const app = await NestFactory.create(AppModule, adapter, { logger: false });
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  const lock = await app.get(LockService).acquire('stock:42');
  const answers = await Promise.all(
    ['health', 'locks', 'locks/page.js'].map(async (path) => (await fetch(url + '/' + path)).status),
  );
  if (answers.some((status) => status !== 200)) throw new Error('answered ' + answers.join(', '));
  const events = await fetch(url + '/locks/events');
  let seen = '';
  for await (const chunk of events.body as unknown as AsyncIterable<Uint8Array>) {
    seen += Buffer.from(chunk).toString();
    if (seen.includes('"key":"stock:42"')) break;
  }
  const { lock: { leaseId } } = (await (await fetch(url + '/locks/lock?key=stock:42')).json()) as {
    lock: { leaseId: string };
  };
  const released = await fetch(url + '/locks/release', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify({ key: 'stock:42', confirmation: 'stock:42', leaseId }),
  });
  if (released.status !== 200 || lock.isHeld) throw new Error('not released: ' + await released.text());
  await app.close();
}

async function main(): Promise<void> {
  instrumentLocks();
  await tryOn(new ExpressAdapter());
  await new Promise((resolve) => setTimeout(resolve, 1_500)); // what was released is free a second later
  await tryOn(new FastifyAdapter());
  console.log('exact');
}

void main();
`;
