import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type ProvidedPostgres, providePostgres } from 'dev-servers';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { useRedisServer } from '../../../test/support/own-redis.js';
import { ShopDatabase } from '../../demo/src/shop-database.js';
import { StockApi } from '../../demo/src/stock-api.js';

const PAUSE_OF_SLOW_MS = 700;

let postgres: ProvidedPostgres;
let database: ShopDatabase;
let settings: Record<string, string>;
const started: StockApi[] = [];

/** Two ordinary processes. */
let first: string;
let second: string;
/** One that hardly waits for a lock and works slowly. */
let slowProcess: StockApi;
let slow: string;

afterAll(async () => {
  await Promise.all(started.map((process) => process.stop()));
  await database.drop();
  await postgres.stop();
});

const redisServer = useRedisServer();

beforeAll(async () => {
  postgres = await providePostgres();
  database = await ShopDatabase.create(postgres.url, `stock_api_${randomBytes(4).toString('hex')}`);
  settings = { DATABASE_URL: database.url, REDIS_URL: redisServer.url };

  const ordinary = { LOCK_WAIT_MS: '20000', STOCK_PAUSE_MS: '2' };
  slowProcess = start({ LOCK_WAIT_MS: '200', STOCK_PAUSE_MS: String(PAUSE_OF_SLOW_MS) });
  [first, second, slow] = await Promise.all([
    start(ordinary).ready(),
    start(ordinary).ready(),
    slowProcess.ready(),
  ]);
});

describe('stock-api', () => {
  it('creates, shows, sells and restocks a product', async () => {
    expect(await put('chair', { quantity: 10, name: 'Chair' })).toMatchObject({
      status: 200,
      body: { id: 'chair', name: 'Chair', quantity: 10 },
    });
    expect(await take(first, 'chair', 3)).toMatchObject({ status: 201, body: { quantity: 7 } });
    expect(await get(`${second}/stock/chair`)).toMatchObject({
      status: 200,
      body: { id: 'chair', name: 'Chair', quantity: 7 },
    });
    expect(await put('chair', { quantity: 20 })).toMatchObject({
      status: 200,
      body: { name: 'Chair', quantity: 20 },
    });
    expect(await database.books('chair')).toEqual({ left: 20, purchases: 1, pieces: 3 });
  });

  it.each([
    ['no quantity', 'chair', {}, 'quantity'],
    ['a text', 'chair', { quantity: '3' }, "'3'"],
    ['a fraction', 'chair', { quantity: 1.5 }, "'1.5'"],
    ['nothing', 'chair', { quantity: 0 }, "'0'"],
    ['less than nothing', 'chair', { quantity: -1 }, "'-1'"],
    ['more than the column holds', 'chair', { quantity: 3_000_000_000 }, "'3000000000'"],
    ['a body that is no object', 'chair', [3], 'quantity'],
    ['an id with a space', 'arm%20chair', { quantity: 1 }, "'arm chair'"],
    ['an id that is too long', 'x'.repeat(65), { quantity: 1 }, 'xxx'],
  ])('answers 400 to %s, naming the value', async (_, id, body, named) => {
    const answer = await post(`${first}/stock/${id}/take`, body);
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(named);
  });

  it('answers 404 to a product that does not exist', async () => {
    expect(await get(`${first}/stock/unknown`)).toMatchObject({ status: 404 });
    expect(await take(first, 'unknown', 1)).toMatchObject({ status: 404 });
  });

  it('answers 409 when there is not enough, and changes nothing', async () => {
    await put('lamp', { quantity: 2 });
    expect(await take(first, 'lamp', 3)).toMatchObject({ status: 409 });
    expect(await database.books('lamp')).toEqual({ left: 2, purchases: 0, pieces: 0 });
  });

  it('answers 423 with Retry-After while another client holds the lock', async () => {
    await put('shelf', { quantity: 5 });
    await redisServer.admin.set('lock:{stock:shelf}', 'another-client', 'PX', 60_000, 'NX');

    const busy = await take(slow, 'shelf', 1);
    expect(busy).toMatchObject({ status: 423, body: { code: 'LOCK_NOT_ACQUIRED' } });
    expect(Number(busy.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);

    await redisServer.admin.del('lock:{stock:shelf}');
    expect(await take(slow, 'shelf', 1)).toMatchObject({ status: 201 });
  });

  it('sells exactly what there is when two processes contend', async () => {
    await put('ticket', { quantity: 30 });
    const requests = Array.from({ length: 60 }, (_, n) =>
      take(n % 2 ? first : second, 'ticket', 1),
    );
    const statuses = (await Promise.all(requests)).map(({ status }) => status);

    expect(statuses.filter((status) => status === 201)).toHaveLength(30);
    expect(statuses.filter((status) => status === 409)).toHaveLength(30);
    expect(await database.books('ticket')).toEqual({ left: 0, purchases: 30, pieces: 30 });
  });

  it('places an order of several lines: all of them or none', async () => {
    await Promise.all([put('cup', { quantity: 9 }), put('plate', { quantity: 2 })]);
    const lines = [line('plate', 1), line('cup', 2), line('plate', 1)];
    expect(await order(first, lines)).toMatchObject({ status: 201, body: { lines } });
    expect(await order(first, [line('cup', 1), line('plate', 1)])).toMatchObject({ status: 409 });
    expect(await database.books('cup')).toEqual({ left: 7, purchases: 1, pieces: 2 });
    expect(await database.books('plate')).toEqual({ left: 0, purchases: 2, pieces: 2 });
  });

  it('places orders with the same products in any order, in two processes, and loses no piece', async () => {
    await Promise.all([put('fork', { quantity: 20 }), put('knife', { quantity: 20 })]);
    const lines = [line('fork', 1), line('knife', 1)];
    const orders = Array.from({ length: 20 }, (_, n) =>
      order(n % 2 ? first : second, n % 3 ? lines : lines.toReversed()),
    );
    const takes = Array.from({ length: 10 }, (_, n) => take(n % 2 ? first : second, 'fork', 1));
    const answers = await Promise.all([...orders, ...takes]);

    // Single takes and orders compete for the forks: whoever comes too late gets none, and no knife.
    const placed = answers.slice(0, 20).filter(({ status }) => status === 201).length;
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(20);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(10);
    expect(await database.books('fork')).toEqual({ left: 0, purchases: 20, pieces: 20 });
    expect(await database.books('knife')).toMatchObject({ left: 20 - placed, pieces: placed });
  });

  it.each([
    ['no lines', {}, 'lines'],
    ['an empty list', { lines: [] }, 'order something'],
    ['a line that is none', { lines: [7] }, 'lines'],
    ['a wrong product', { lines: [line('arm chair', 1)] }, "'arm chair'"],
    ['a wrong quantity', { lines: [line('cup', 0)] }, "'0'"],
  ])('answers 400 to an order with %s', async (_, body, named) => {
    const answer = await post(`${first}/orders`, body);
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(named);
  });

  it('shows who holds the lock of a product, and its fence', async () => {
    await put('rug', { quantity: 5 });
    const restocked = await lockState('rug');
    expect(restocked).toEqual({
      key: 'stock:rug',
      lock: null,
      fence: { token: expect.any(Number) as unknown },
    });
    expect(await lockState('never-sold')).toMatchObject({ lock: null, fence: null });

    const answer = order(slow, [line('rug', 1)]);
    await until(() => redisServer.admin.exists('lock:{stock:rug}').then((count) => count === 1));
    expect(await lockState('rug')).toMatchObject({
      lock: { key: 'stock:rug', holder: { pid: slowProcess.pid }, waiters: 0 },
    });
    expect(await answer).toMatchObject({ status: 201 });
    const sold = await lockState('rug');
    expect(sold.lock).toBeNull();
    expect(sold.fence?.token).toBeGreaterThan(restocked.fence?.token as number);
  });

  it('refuses orders in wrong nesting, and places them all if they are restarted', async () => {
    await put('vase', { quantity: 15 });
    const wrong = { ORDERS_NESTING: 'wrong', LOCK_WAIT_MS: '20000', STOCK_PAUSE_MS: '2' };
    const rejecting = start(wrong);
    const restarting = start({ ...wrong, LOCK_INSIDE_TRANSACTION: 'restart' });
    const [rejects, restarts] = await Promise.all([rejecting.ready(), restarting.ready()]);

    expect(await order(rejects, [line('vase', 1)])).toMatchObject({ status: 500 });
    const refusal = "StockService.take: lock 'stock:vase' was requested inside an open database";
    await until(async () => rejecting.output.includes(refusal));
    expect(await database.books('vase')).toEqual({ left: 15, purchases: 0, pieces: 0 });

    const orders = Array.from({ length: 20 }, (_, n) =>
      order(n % 2 ? restarts : first, [line('vase', 1)]),
    );
    const statuses = (await Promise.all(orders)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(15);
    expect(statuses.filter((status) => status === 409)).toHaveLength(5);
    expect(await database.books('vase')).toEqual({ left: 0, purchases: 15, pieces: 15 });
  });

  it('does not mount the unlocked variant unless it is asked to', async () => {
    expect(await post(`${first}/unlocked/stock/ticket/take`, { quantity: 1 })).toMatchObject({
      status: 404,
    });
  });

  it('answers 503 with Retry-After while Redis is away, and sells again afterwards', async () => {
    await put('desk', { quantity: 5 });
    expect(await get(`${slow}/health`)).toMatchObject({
      status: 200,
      body: { status: 'ok', info: { database: { status: 'up' }, locks: { status: 'up' } } },
    });

    await redisServer.kill();
    const refused = await take(slow, 'desk', 1);
    expect(refused).toMatchObject({ status: 503, body: { code: 'LOCK_STORE_FAILED' } });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(await get(`${slow}/health`)).toMatchObject({
      status: 503,
      body: {
        info: { database: { status: 'up' } },
        error: { locks: { status: 'down', code: 'LOCK_STORE_FAILED' } },
      },
    });

    await redisServer.restart();
    await until(() => get(`${slow}/health`).then(({ status }) => status === 200));
    await until(() => take(slow, 'desk', 1).then(({ status }) => status === 201));
    expect(await database.books('desk')).toEqual({ left: 4, purchases: 1, pieces: 1 });
  });

  it('finishes a request in flight before it ends on SIGTERM, and frees the lock', async () => {
    await put('sofa', { quantity: 5 });
    const answer = take(slow, 'sofa', 2);
    await until(() => redisServer.admin.exists('lock:{stock:sofa}').then((count) => count === 1));
    slowProcess.signal('SIGTERM');

    expect(await answer).toMatchObject({ status: 201, body: { quantity: 3 } });
    expect(await slowProcess.ended).toBe('SIGTERM');
    expect(await redisServer.admin.exists('lock:{stock:sofa}')).toBe(0);
    expect(await database.books('sofa')).toEqual({ left: 3, purchases: 1, pieces: 2 });
  });

  it.each([
    ['DATABASE_URL', '', 'DATABASE_URL is not set: set it to an address like postgres://'],
    ['REDIS_URL', 'localhost', 'REDIS_URL is not an address: set it to one like redis://'],
    ['PORT', '70000', "PORT is '70000': set it to a whole number from 0 to 65535"],
    ['LOCK_LEASE_MS', '0.5', "LOCK_LEASE_MS is '0.5': set it to a whole number from 500 to"],
    ['ORDERS_NESTING', 'left', "ORDERS_NESTING is 'left': set it to right or wrong"],
  ])('does not start with a wrong %s, and says why', async (name, value, message) => {
    const process = start({ [name]: value });
    expect(await process.ended).toBe('exit code 1');
    expect(process.output).toContain(message);
  });
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: unknown;
}

interface OrderLine {
  readonly productId: string;
  readonly quantity: number;
}

interface LockState {
  readonly key: string;
  readonly lock: object | null;
  readonly fence: { readonly token: number } | null;
}

function start(extra: Record<string, string>): StockApi {
  const process = new StockApi({ ...settings, ...extra });
  started.push(process);
  return process;
}

function get(url: string): Promise<Answer> {
  return send('GET', url);
}

function put(id: string, body: object): Promise<Answer> {
  return send('PUT', `${first}/stock/${id}`, body);
}

function post(url: string, body: object): Promise<Answer> {
  return send('POST', url, body);
}

function take(origin: string, id: string, quantity: number): Promise<Answer> {
  return post(`${origin}/stock/${id}/take`, { quantity });
}

function line(productId: string, quantity: number): OrderLine {
  return { productId, quantity };
}

function order(origin: string, lines: readonly OrderLine[]): Promise<Answer> {
  return post(`${origin}/orders`, { lines });
}

async function lockState(id: string): Promise<LockState> {
  return (await get(`${first}/stock/${id}/lock`)).body as LockState;
}

async function send(method: string, url: string, body?: object): Promise<Answer> {
  const response = await fetch(url, {
    method,
    // A connection that stays open would keep a process that ends waiting.
    headers: { 'content-type': 'application/json', connection: 'close' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const { status, headers } = response;
  const text = await response.text();
  return { status, headers, text, body: JSON.parse(text) as unknown };
}

/** Asks again and again until the answer is yes; the test's own time limit bounds it. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(50);
}
