import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  Body,
  Controller,
  Get,
  HttpCode,
  type INestApplication,
  Inject,
  Injectable,
  type NestInterceptor,
  Param,
  ParseIntPipe,
  Post,
  Req,
  Scope,
  Sse,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common';
import { ModuleRef, REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { map, Observable, of } from 'rxjs';
import { Readable } from 'node:stream';
import { lockKey } from '../../libs/nestjs-locked/src/core/keys/lock-key.js';
import { InjectLockService } from '../../libs/nestjs-locked/src/nest/decorator/lock-service.token.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { RecordingLockModule, RecordingLocks } from './recording-locks.js';

import 'reflect-metadata';

let locks: RecordingLocks;
beforeEach(() => {
  locks = new RecordingLocks();
});

describe('@Locked over HTTP', () => {
  class Upper implements NestInterceptor {
    intercept: NestInterceptor['intercept'] = (_, next) =>
      next
        .handle()
        .pipe(map((value: unknown) => (typeof value === 'string' ? `<${value}>` : value)));
  }

  @Injectable({ scope: Scope.REQUEST })
  class PerRequest {
    constructor(@Inject(REQUEST) readonly request: { url: string }) {}

    @Locked('request:<name>')
    async run(name: string) {
      locks.events.push('work');
      return Promise.resolve(`${name} ${this.request.url}`);
    }
  }

  @Controller('stock')
  class StockController {
    constructor(@Inject(PerRequest) private readonly perRequest: PerRequest) {}

    @Locked('stock:<id>')
    @Get('below/:id')
    @UseInterceptors(Upper)
    async below(@Param('id', ParseIntPipe) id: number) {
      return Promise.resolve(`${typeof id} ${id}`);
    }

    @Get('above/:id')
    @HttpCode(202)
    @UseInterceptors(Upper)
    @Locked('stock:<id>')
    async above(@Param('id') id: string) {
      return Promise.resolve(id);
    }

    @Post('order')
    @Locked('stock:<order.lines.0.sku>:<1.method>')
    async order(@Body() order: { lines: { sku: string }[] }, @Req() request: { method: string }) {
      return Promise.resolve({ sku: order.lines[0]?.sku, method: request.method });
    }

    @Locked((id: string) => lockKey`stock:${id}`)
    @Get('observable/:id')
    observable(@Param('id') id: string): Observable<string> {
      return of('first', id);
    }

    @Locked('stock:<id>')
    @Get('promised/:id')
    async promised(@Param('id') id: string): Promise<Observable<string>> {
      return Promise.resolve(of('first', id));
    }

    @Locked('stock:<id>')
    @Get('file/:id')
    async file(@Param('id') id: string) {
      return Promise.resolve(new StreamableFile(Readable.from(['file ', id])));
    }

    @Sse('events/:id')
    @Locked('stock:<id>')
    events(@Param('id') id: string): Observable<{ data: string }> {
      return of({ data: 'first' }, { data: id });
    }

    @Get('request/:id')
    async request(@Param('id') id: string) {
      return this.perRequest.run(id);
    }
  }

  let app: INestApplication;
  let url: string;
  beforeEach(async () => {
    const module = await Test.createTestingModule({
      imports: [RecordingLockModule.with(locks)],
      controllers: [StockController],
      providers: [PerRequest],
    }).compile();
    app = module.createNestApplication({ logger: false });
    await app.listen(0, '127.0.0.1');
    url = `${await app.getUrl()}/stock`;
  });
  afterEach(() => app.close());

  async function get(path: string, init?: RequestInit): Promise<[number, string]> {
    const response = await fetch(`${url}/${path}`, init);
    return [response.status, await response.text()];
  }
  const releasedOnce = (key: string): string[] => [`lock ${key}`, `unlock ${key}`];

  it('keeps the route, its pipes and interceptors, above and below @Get [D146]', async () => {
    await expect(get('below/042')).resolves.toEqual([200, '<number 42>']);
    await expect(get('above/042')).resolves.toEqual([202, '<042>']);
    // With @Locked, the pipes came first: 042 and 42 differ only where the text itself is used.
    expect(locks.keys).toEqual(['stock:42', 'stock:042']);
    await expect(get('below/x')).resolves.toMatchObject([400, expect.anything()]);
    expect(locks.keys).toHaveLength(2);
  });

  it('binds paths into the body and positions', async () => {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ lines: [{ sku: 'a:b' }] }),
    };
    await expect(get('order', init)).resolves.toEqual([201, '{"sku":"a:b","method":"POST"}']);
    expect(locks.keys).toEqual(['stock:a%3Ab:POST']);
    const [status] = await get('order', { ...init, body: '{"lines":[]}' });
    expect(status).toBe(500);
    expect(locks.keys).toHaveLength(1);
  });

  it('holds the lock for Observables, announced or not', async () => {
    await expect(get('observable/1')).resolves.toEqual([200, '1']);
    await expect(get('promised/2')).resolves.toEqual([200, '2']);
    expect(locks.events).toEqual([...releasedOnce('stock:1'), ...releasedOnce('stock:2')]);
  });

  it('holds the lock for files and event streams', async () => {
    await expect(get('file/1')).resolves.toEqual([200, 'file 1']);
    const [status, text] = await get('events/2');
    expect([status, text]).toEqual([200, expect.stringContaining('data: 2')]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(locks.events).toEqual([...releasedOnce('stock:1'), ...releasedOnce('stock:2')]);
  });

  it('reaches request-scoped providers', async () => {
    await expect(get('request/a')).resolves.toEqual([200, 'a /stock/request/a']);
    await expect(get('request/b')).resolves.toEqual([200, 'b /stock/request/b']);
    expect(locks.events).toEqual([
      'lock request:a',
      'work',
      'unlock request:a',
      'lock request:b',
      'work',
      'unlock request:b',
    ]);
  });
});

describe('@Locked in a Nest application', () => {
  @Injectable()
  class Stock {
    @Locked('stock:<id>')
    async take(id: string) {
      return Promise.resolve(id);
    }
    @Locked('all')
    async all() {
      return Promise.resolve();
    }
  }
  @Injectable()
  class Billing extends Stock {
    @Locked('invoice:<id>', { service: 'billing' })
    async pay(id: string) {
      return Promise.resolve(id);
    }
  }

  it('does not start without the module, and says what to import', async () => {
    const start = Test.createTestingModule({ providers: [Stock] }).compile();
    await expect(start).rejects.toThrow(
      'Please make sure that the "Symbol(RedisLockModule.forRoot() (import it in the root module, with options and no name, or write the name of another as service in @Locked; if isGlobal is false, in this module, too; in tests LockTestingModule.forRoot()))" property is available',
    );
  });

  it('does not start without the named module, and names it', async () => {
    const start = Test.createTestingModule({
      imports: [RecordingLockModule.with(locks)],
      providers: [Billing],
    }).compile();
    await expect(start).rejects.toThrow("RedisLockModule.forRoot({ name: 'billing' })");
  });

  it('gives each method the service that it names', async () => {
    const named = new RecordingLocks();
    const module = await Test.createTestingModule({
      imports: [RecordingLockModule.with(locks), RecordingLockModule.with(named, 'billing')],
      providers: [Billing],
    }).compile();
    const billing = module.get(Billing);
    await billing.take('a');
    await billing.pay('b');
    expect([locks.keys, named.keys]).toEqual([['stock:a'], ['invoice:b']]);
  });

  it('reaches transient providers and ModuleRef.create', async () => {
    @Injectable({ scope: Scope.TRANSIENT })
    class Transient extends Stock {}
    @Injectable()
    class Owner {
      constructor(
        @Inject(Transient) readonly part: Transient,
        @Inject(ModuleRef) readonly modules: ModuleRef,
        @InjectLockService() readonly service: unknown,
      ) {}
    }
    const module = await Test.createTestingModule({
      imports: [RecordingLockModule.with(locks)],
      providers: [Transient, Owner],
    }).compile();
    const owner = module.get(Owner);
    await owner.part.take('a');
    await (await owner.modules.create(Stock)).take('b');
    expect(locks.keys).toEqual(['stock:a', 'stock:b']);
    expect(owner.service).toBe(locks);
  });

  it('says so when the service is mocked', async () => {
    const module = await Test.createTestingModule({ providers: [Stock] })
      .useMocker(() => ({ withLock: jest.fn() }))
      .compile();
    await expect(module.get(Stock).take('a')).rejects.toThrow(
      'Cannot lock Stock.take: LockService is mocked; use LockTestingModule or withTestLocks from nestjs-locked/testing',
    );
  });
});
