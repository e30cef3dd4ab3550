import { describe, expect, it } from '@jest/globals';
import { firstValueFrom, Observable, of } from 'rxjs';
import { inspect } from 'node:util';
import { lockKey } from '../../libs/nestjs-locked/src/core/keys/lock-key.js';
import { LockConfigError, LockKeyError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { RecordingLocks } from './recording-locks.js';

class Stock {
  ran = 0;

  @Locked('stock:<id>')
  async take(id: unknown, work: () => unknown = () => undefined): Promise<unknown> {
    this.ran += 1;
    return work();
  }

  @Locked('stock:<order.sku>')
  async order(order: { sku: string }): Promise<string> {
    this.ran += 1;
    return Promise.resolve(order.sku);
  }

  @Locked((id: string) => lockKey`stock:${id}`)
  async put(id: string): Promise<string> {
    this.ran += 1;
    return Promise.resolve(id);
  }

  @Locked('stock:<id>')
  watch(id: unknown): Observable<unknown> {
    this.ran += 1;
    return of(id);
  }

  @Locked('stock:<id>')
  async *each(id: unknown): AsyncGenerator<unknown> {
    this.ran += 1;
    yield Promise.resolve(id);
  }
}

/** Every way to call, as a Promise of its first result. */
const CALLS: [string, (stock: Stock, id: unknown) => Promise<unknown>][] = [
  ['Promise', (stock, id) => stock.take(id)],
  ['Observable', (stock, id) => firstValueFrom(stock.watch(id))],
  ['async iterable', (stock, id) => stock.each(id).next()],
];

describe('a locked method', () => {
  it('runs while the lock is held and returns its own result [D147]', async () => {
    const locks = new RecordingLocks();
    const stock = locks.give(new Stock());
    const result = await stock.take('a', () => {
      locks.events.push('work');
      return 'result';
    });
    expect(result).toBe('result');
    expect(locks.events).toEqual(['lock stock:a', 'work', 'unlock stock:a']);
  });

  it('throws its own error, after the release', async () => {
    const locks = new RecordingLocks();
    const failure = new Error('out of stock');
    const call = locks.give(new Stock()).take('a', () => {
      throw failure;
    });
    await expect(call).rejects.toBe(failure);
    expect(locks.events).toEqual(['lock stock:a', 'unlock stock:a']);
  });

  it('runs one call at a time per key, and keys side by side', async () => {
    const locks = new RecordingLocks();
    const stock = locks.give(new Stock());
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      inside += 1;
      most = Math.max(most, inside);
      await new Promise((resolve) => setTimeout(resolve, 2));
      inside -= 1;
    };
    await Promise.all(Array.from({ length: 5 }, () => stock.take('a', work)));
    expect(most).toBe(1);
    await Promise.all(['a', 'b'].map((id) => stock.take(id, work)));
    expect(most).toBe(2);
  });

  it('builds the key when it is called: later changes of the arguments do not matter [D140]', async () => {
    const locks = new RecordingLocks();
    const stock = locks.give(new Stock());
    const order = { sku: 'a' };
    const call = stock.order(order);
    order.sku = 'b';
    await call;
    expect(locks.keys).toEqual(['stock:a']);
  });

  it.each(CALLS)('without a lock service never runs and says so, as %s [D145]', async (_, call) => {
    const stock = new Stock();
    const failure = await call(stock, 'a').catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LockConfigError);
    const { message } = failure as Error;
    expect(message).toMatch(
      /^Cannot lock Stock\.(take|watch|each): this instance has no LockService/,
    );
    expect(message).toContain('import RedisLockModule.forRoot() in the root module');
    expect(message).toContain("withTestLocks(new Stock(...)) from 'nestjs-locked/testing'");
    expect(stock.ran).toBe(0);
  });

  it.each(CALLS)('with a mocked lock service never runs and says so, as %s', async (_, call) => {
    const mock = { withLock: () => undefined };
    const stock = new RecordingLocks().give.call(mock as never, new Stock()) as Stock;
    await expect(call(stock, 'a')).rejects.toThrow(
      'LockService is mocked; use LockTestingModule or withTestLocks from nestjs-locked/testing',
    );
    expect(stock.ran).toBe(0);
  });

  it.each(CALLS)('without a key never requests a lock, as %s', async (_, call) => {
    const locks = new RecordingLocks();
    const stock = locks.give(new Stock());
    for (const id of [undefined, null, '', NaN, {}, [], new Date()]) {
      await expect(call(stock, id)).rejects.toBeInstanceOf(LockKeyError);
    }
    expect(locks.calls).toEqual([]);
    expect(stock.ran).toBe(0);
  });

  it('rejects instead of throwing, so that callers see one kind of failure', () => {
    const call = new Stock().take('a');
    expect(call).toBeInstanceOf(Promise);
    return expect(call).rejects.toBeInstanceOf(LockConfigError);
  });

  it('says which service is missing', async () => {
    class Billing {
      @Locked('invoice', { service: 'billing' })
      async pay() {
        return Promise.resolve();
      }
    }
    const billing = new RecordingLocks().give(new Billing());
    await expect(billing.pay()).rejects.toThrow("RedisLockModule.forRoot({ name: 'billing' })");
  });

  it('notices that it is called without its instance', async () => {
    const alone: unknown = Object.getOwnPropertyDescriptor(Stock.prototype, 'take')?.value;
    const call = (alone as (id: string) => Promise<unknown>)('a');
    await expect(call).rejects.toThrow(
      'Cannot lock Stock.take: it was called without its instance',
    );
  });

  it('turns errors of the key function into a LockKeyError with the cause', async () => {
    const broken = new TypeError('broken');
    class Keys {
      @Locked((how: string): string => {
        if (how === 'throw') throw broken;
        if (how === 'lockKey') return lockKey`stock:${undefined as unknown as string}`;
        if (how === 'holes') return new Array(2) as unknown as string;
        if (how === 'nothing') return undefined as unknown as string;
        if (how === 'empty') return [] as unknown as string;
        return (how === 'promise' ? Promise.resolve('k') : how) as string;
      })
      async take(how: string) {
        return Promise.resolve(how);
      }
    }
    const locks = new RecordingLocks();
    const keys = locks.give(new Keys());
    const prefix = 'Cannot build a lock key with the key function of Keys.take: ';
    const failure = await keys.take('throw').catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LockKeyError);
    expect(failure).toMatchObject({
      message: `${prefix}broken; it is called with the arguments of the method, and without its instance`,
      cause: broken,
    });
    await expect(keys.take('lockKey')).rejects.toThrow('value 1 is undefined');
    await expect(keys.take('promise')).rejects.toThrow(`${prefix}it returned a Promise; build`);
    await expect(keys.take('nothing')).rejects.toThrow(`${prefix}it returned undefined; a body in`);
    await expect(keys.take('empty')).rejects.toThrow('call the method only if there is something');
    await expect(keys.take('holes')).rejects.toThrow(`${prefix}Cannot use undefined`);
    await expect(keys.take('{a}')).rejects.toThrow('braces are reserved');
    await expect(keys.take('')).rejects.toBeInstanceOf(LockKeyError);
    expect(locks.calls).toEqual([]);
    await keys.take('fine');
    expect(locks.keys).toEqual(['fine']);
  });
});

describe('the hidden lock service', () => {
  it('appears neither in logs nor in copies and comparisons', () => {
    const stock = new RecordingLocks().give(new Stock());
    expect(inspect(stock, { depth: 5 })).toBe('Stock { ran: 0 }');
    expect(JSON.stringify(stock)).toBe('{"ran":0}');
    expect(Reflect.ownKeys({ ...stock })).toEqual(['ran']);
    expect(stock).toEqual(new Stock());
  });

  it('is each instance’s own', async () => {
    const [one, two] = [new RecordingLocks(), new RecordingLocks()];
    await one.give(new Stock()).take('1');
    await two.give(new Stock()).take('2');
    expect([one.keys, two.keys]).toEqual([['stock:1'], ['stock:2']]);
  });
});

describe('subclasses', () => {
  class Special extends Stock {
    @Locked('special:<id>')
    override async put(id: string): Promise<string> {
      return super.put(id);
    }
  }

  it('inherit locked methods and may lock methods of their own', async () => {
    const locks = new RecordingLocks();
    const special = locks.give(new Special());
    await special.take('a');
    await special.put('b');
    expect(locks.events).toEqual([
      'lock stock:a',
      'unlock stock:a',
      'lock special:b',
      'lock stock:b',
      'unlock stock:b',
      'unlock special:b',
    ]);
  });
});
