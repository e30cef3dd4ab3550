import { describe, expect, it } from '@jest/globals';
import {
  LockAbortedError,
  LockConfigError,
  LockKeyError,
  LockNotAcquiredError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockServiceOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { inMemoryEngine } from '../../libs/nestjs-locked/src/testing/in-memory-engine.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock, settled } from '../support/fake-clock.js';

/** Two processes on one store. */
function two(options: LockServiceOptions = {}) {
  const clock = new FakeClock();
  const locks = new InMemoryLocks(clock);
  return {
    clock,
    a: inMemoryEngine(options, locks),
    b: inMemoryEngine(options, locks),
  };
}

async function outcome(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'held',
    (error: unknown) => error,
  );
}

describe('maxHoldMs', () => {
  it('aborts the signal, stops renewing, and gives the lease to nobody until it has run out [R4]', async () => {
    const { clock, a, b } = two({ maxHoldMs: 60_000 });
    const hold = await a.acquire('k');
    const { signal } = hold;
    const local = outcome(a.acquire('k', { waitMs: 100_000 }));
    const remote = b.acquire('k', { waitMs: 100_000 });
    let remoteEntered = false;
    void remote.then(() => (remoteEntered = true));
    await clock.advance(59_999);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'max-hold' });
    await clock.advance(15_000);
    expect(remoteEntered).toBe(false);
    await clock.advance(15_100);
    expect(remoteEntered).toBe(true);
    expect(await hold.release()).toBe(false);
    expect((await remote).isHeld).toBe(true);
    await (await remote).release();
    await settled();
    expect(await local).toBe('held');
  });

  it('Infinity never ends a hold', async () => {
    const { clock, a } = two({ maxHoldMs: Infinity });
    const hold = await a.acquire('k');
    await clock.advance(3_600_000);
    expect(hold.isHeld).toBe(true);
  });
});

describe('renew: false', () => {
  it('ends with its lease although the work goes on [R4]', async () => {
    const { clock, a, b } = two();
    const hold = await a.acquire('k', { renew: false, leaseMs: 2_000 });
    const next = b.acquire('k');
    await clock.advance(1_979);
    expect(hold.isHeld).toBe(true);
    await clock.advance(200);
    expect(hold.signal.reason).toMatchObject({ reason: 'expired' });
    expect((await next).isHeld).toBe(true);
  });

  it('neither takes over a lease that somebody has begun nor passes its own on [R10]', async () => {
    const { clock, a } = two({ leaseMs: 30_000 });
    const first = await a.acquire('k');
    const fixed = a.acquire('k', { renew: false, leaseMs: 60_000 });
    const last = a.acquire('k');
    await clock.advance(9_000);
    await first.release();
    await settled();
    expect((await fixed).remainingMs()).toBe(60_000 - 600);
    await (await fixed).release();
    await settled();
    expect((await last).remainingMs()).toBe(30_000 - 300);
  });

  it('is prolonged by ensureRemaining()', async () => {
    const { clock, a } = two();
    const hold = await a.acquire('k', { renew: false, leaseMs: 2_000 });
    await hold.ensureRemaining(10_000);
    await clock.advance(10_000);
    expect(hold.isHeld).toBe(true);
  });
});

describe('lingerMs', () => {
  it('keeps an unused lease for the next caller here, and for that long only', async () => {
    const { clock, a, b } = two({ lingerMs: 1_000 });
    const first = await a.acquire('k');
    await first.release();
    expect(await b.inspect('k')).not.toBeNull();
    const second = await a.acquire('k', { waitMs: 0 });
    expect(second.fencingToken).toBe(first.fencingToken + 1);
    await second.release();
    await clock.advance(1_000);
    expect(await b.inspect('k')).toBeNull();
    expect(a.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('is given up at once when another process wants the key', async () => {
    const { a, b } = two({ lingerMs: 30_000 });
    await (await a.acquire('k')).release();
    expect((await b.acquire('k')).isHeld).toBe(true);
  });

  it('makes a single try of another process fail once: it is given up then, and the next try succeeds', async () => {
    const { a, b } = two({ lingerMs: 30_000 });
    await (await a.acquire('k')).release();
    expect(await outcome(b.acquire('k', { waitMs: 0 }))).toBeInstanceOf(LockNotAcquiredError);
    await settled();
    expect((await b.acquire('k', { waitMs: 0 })).isHeld).toBe(true);
  });

  it('is not used for jobs that others skip [R21]', async () => {
    const { a, b } = two({ lingerMs: 30_000 });
    await a.withLock('k', { onBusy: 'skip' }, () => 'done');
    expect(await b.withLock('k', { waitMs: 0, onBusy: 'skip' }, () => 'done')).toBe('done');
  });

  it('is over when the application closes [R45]', async () => {
    const { a, b } = two({ lingerMs: 30_000 });
    await (await a.acquire('k')).release();
    await a.close(0);
    expect(await b.inspect('k')).toBeNull();
  });
});

describe('holdAtLeastMs', () => {
  it('keeps the key from everybody, in this process and in others [R41]', async () => {
    const { clock, a, b } = two();
    await a.withLock('job', { holdAtLeastMs: 5_000 }, () => 'done');
    expect(await outcome(b.acquire('job', { waitMs: 0 }))).toBeInstanceOf(LockNotAcquiredError);
    expect(await outcome(a.acquire('job', { waitMs: 0 }))).toBeInstanceOf(LockNotAcquiredError);
    expect(await a.inspect('job')).toMatchObject({ holder: undefined });
    let entered = '';
    const later = b.acquire('job').then(() => (entered += 'b'));
    const here = outcome(a.acquire('job', { waitMs: 4_950 }));
    await clock.advance(4_900);
    expect(entered).toBe('');
    await clock.advance(200);
    expect(entered).toBe('b');
    await later;
    expect(await here).toBeInstanceOf(LockNotAcquiredError);
  });

  it('keeps the key of work that throws', async () => {
    const { clock, a, b } = two();
    const failing = (): never => {
      throw new RangeError('on purpose');
    };
    const call = a.withLock('job', { holdAtLeastMs: 5_000 }, failing);
    await expect(call).rejects.toThrow(RangeError);
    await clock.advance(4_900);
    expect(await b.inspect('job')).toMatchObject({ holder: undefined });
    await clock.advance(200);
    expect(await b.inspect('job')).toBeNull();
  });

  it.each([5_000, 0])(
    'does not keep the key for work that was cancelled right before it began, with holdAtLeastMs %d [D10]',
    async (holdAtLeastMs) => {
      const { a, b } = two({ lingerMs: 30_000 });
      const cancel = new AbortController();
      const options = { holdAtLeastMs, signal: cancel.signal };
      const first = await a.acquire('job');
      let runs = 0;
      const call = outcome(a.withLock('job', options, () => ++runs));
      const released = first.release(); // the other call has the lock now, and has not been told yet
      cancel.abort();
      await released;
      expect([await call, runs]).toEqual([expect.any(LockAbortedError), 0]);
      expect(await b.inspect('job')).toBeNull();
    },
  );

  it('changes nothing for work that takes longer', async () => {
    const { clock, a, b } = two();
    const hold = await a.acquire('job', { holdAtLeastMs: 5_000 });
    await clock.advance(6_000);
    await hold.release();
    expect(await b.inspect('job')).toBeNull();
  });
});

describe('onBusy', () => {
  it("'skip' gives undefined and does not run the work", async () => {
    const { a, b } = two();
    await a.acquire('k');
    let runs = 0;
    const result = await b.withLock('k', { waitMs: 0, onBusy: 'skip' }, () => ++runs);
    expect([result, runs]).toEqual([undefined, 0]);
  });

  it('a function gives the result instead', async () => {
    const { a, b } = two();
    await a.acquire('k');
    const result = await b.withLock(
      'k',
      { waitMs: 0, onBusy: ({ key }) => `${key} is busy` },
      () => 1,
    );
    expect(result).toBe('k is busy');
  });

  it('is not needed by tryAcquire, which gives null', async () => {
    const { a, b } = two();
    const lock = await a.tryAcquire('k');
    expect(lock?.isHeld).toBe(true);
    expect(await b.tryAcquire('k')).toBeNull();
  });

  it('does not mistake the failure of a lock inside the work for its own [D151]', async () => {
    const { a, b } = two();
    await a.acquire('inner');
    const call = b.withLock('outer', { onBusy: 'skip' }, () => b.acquire('inner', { waitMs: 0 }));
    await expect(call).rejects.toThrow(LockNotAcquiredError);
  });
});

describe('a lock that is used after its release', () => {
  it('does not say that it was lost', async () => {
    const { a } = two();
    const lock = await a.acquire('k');
    const { signal } = lock;
    await lock.release();
    const error = { code: 'LOCK_LOST', reason: 'released' };
    const message =
      "Lock 'k' is not held: it was released; acquire it again, or use it before its release";
    expect(() => lock.assertHeld()).toThrow(expect.objectContaining({ ...error, message }));
    await expect(lock.ensureRemaining(1)).rejects.toMatchObject(error);
    await expect(lock.run(() => 'ran')).rejects.toMatchObject(error);
    expect(signal.aborted).toBe(false);
  });

  it('still says so if it was lost before', async () => {
    const { a, b } = two();
    const lock = await a.acquire('k');
    await b.forceRelease('k');
    await settled();
    expect(await lock.release()).toBe(false);
    expect(() => lock.assertHeld()).toThrow(expect.objectContaining({ reason: 'revoked' }));
  });
});

it('a lock of acquire() or tryAcquire() is released at the end of `await using`', async () => {
  const { a, b } = two();
  const tidyUp = async (): Promise<boolean | undefined> => {
    await using lock = await a.tryAcquire('k');
    return lock?.isHeld;
  };
  expect(await tidyUp()).toBe(true);
  expect(await b.inspect('k')).toBeNull();
});

describe('ensureRemaining()', () => {
  it('sends nothing when enough is left, prolongs when it is not', async () => {
    const { clock, a } = two();
    const hold = await a.acquire('k');
    await clock.advance(5_000);
    await hold.ensureRemaining(10_000);
    expect(hold.remainingMs()).toBe(24_700);
    await hold.ensureRemaining(40_000);
    expect(hold.remainingMs()).toBeGreaterThanOrEqual(40_000);
  });

  it('rejects when the hold may not last so long', async () => {
    const { a } = two({ maxHoldMs: 5_000 });
    const hold = await a.acquire('k');
    await expect(hold.ensureRemaining(6_000)).rejects.toMatchObject({
      code: 'LOCK_LOST',
      reason: 'max-hold',
    });
  });

  it.each([-1, 1.5, NaN, Infinity])('refuses %p', async (ms) => {
    const { a } = two();
    await expect((await a.acquire('k')).ensureRemaining(ms)).rejects.toThrow(LockConfigError);
  });
});

describe('options', () => {
  it.each([null, 5, 'waitMs', []])('refuses %j [D136]', async (options) => {
    const { a } = two();
    await expect(a.acquire('k', options as never)).rejects.toThrow(LockConfigError);
    await expect(a.withLock('k', options as never, () => 1)).rejects.toThrow(LockConfigError);
  });

  it.each(['', 'a\nb', 'a\u2028b', 'a\u0000', '\u001b[2K', 'x'.repeat(201)])(
    'refuses %j as a label: it appears in messages',
    async (label) => {
      const { a } = two();
      await expect(a.acquire('k', { label })).rejects.toThrow(
        /^Invalid option label: .* must be a string of 1 to 200 characters without line breaks/,
      );
    },
  );
});

describe('a wrong argument', () => {
  it.each([5, null, undefined, {}])('%p is refused as the work of lock.run()', async (work) => {
    const { a } = two();
    const lock = await a.acquire('k');
    const run = lock.run(work as never);
    await expect(run).rejects.toBeInstanceOf(LockConfigError);
    await expect(run).rejects.toThrow(' must be a function; write lock.run(() => …)');
    expect(lock.isHeld).toBe(true);
  });

  it.each([
    [Symbol('a'), 'Symbol(a)'],
    [null, 'null'],
    [5, '5'],
  ])('%p is refused as the pattern of list()', async (pattern, shown) => {
    const { a } = two();
    await a.acquire('5');
    const listed = a.list(pattern as never);
    const next = listed[Symbol.asyncIterator]().next();
    await expect(next).rejects.toBeInstanceOf(LockKeyError);
    await expect(next).rejects.toThrow(`Cannot list the locks of ${shown}: the pattern must be`);
  });

  it.each(['lock:{stock:*}', 'stock:<id>', 'stock:${id}'])(
    '%p is refused as the pattern of list(), because it matches no key',
    async (pattern) => {
      const { a } = two();
      const next = a.list(pattern)[Symbol.asyncIterator]().next();
      await expect(next).rejects.toBeInstanceOf(LockKeyError);
      await expect(next).rejects.toThrow(
        `Cannot list the locks of '${pattern}': no key has '<', '{' or '}'; write keys as the application does, without the keyPrefix`,
      );
    },
  );

  it.each([
    [Symbol('a'), 'Symbol(a)'],
    [undefined, 'undefined'],
  ])('%p is refused as the key of fencingTokenOf()', async (key, shown) => {
    const { a } = two();
    const lock = await a.acquire('k');
    const ask = (): unknown => lock.fencingTokenOf(key as never);
    expect(ask).toThrow(LockKeyError);
    expect(ask).toThrow(`Cannot use ${shown} as a lock key: it must be a string`);
  });

  it('fencingTokenOf() names its keys if it is asked for another', async () => {
    const { a } = two();
    const lock = await a.acquire(['k', 'm']);
    expect(() => lock.fencingTokenOf('n')).toThrow(
      "Cannot tell the fencing token of 'n': this lock holds 'k', 'm'; pass one of lock.keys",
    );
  });
});

describe('forceRelease() and inspect()', () => {
  it('tells the holder before the next one enters [R40]', async () => {
    const { clock, a, b } = two();
    const hold = await a.acquire('k');
    const next = b.acquire('k');
    const log: string[] = [];
    hold.signal.addEventListener('abort', () => log.push('lost'));
    void next.then(() => log.push('next'));
    expect(await b.forceRelease('k')).toBe(true);
    await clock.advance(2_000);
    expect(log).toEqual(['lost', 'next']);
    expect(hold.signal.reason).toMatchObject({ reason: 'revoked' });
  });

  it('says so when nobody holds it', async () => {
    const { a } = two();
    expect(await a.forceRelease('k')).toBe(false);
    expect(await a.inspect('k')).toBeNull();
  });

  it('shows holder, label, waiters and time left [R39]', async () => {
    const { a, b } = two();
    await a.acquire('k', { label: 'nightly report' });
    void b.acquire('k', { waitMs: Infinity });
    await settled();
    expect(await b.inspect('k')).toMatchObject({
      key: 'k',
      holder: { pid: process.pid, label: 'nightly report' },
      waiters: 1,
    });
    const keys: string[] = [];
    for await (const { key } of b.list('k*')) keys.push(key);
    expect(keys).toEqual(['k']);
  });
});

describe('several keys', () => {
  it('are sorted by bytes and taken once each [R47]', async () => {
    const { a } = two();
    const lock = await a.acquire(['z', 'é', 'a', 'z', '\u{1F600}', '\uFF5E']);
    expect(lock.keys).toEqual(['a', 'z', 'é', '\uFF5E', '\u{1F600}']);
    expect(lock.fencingTokenOf('z')).toBeGreaterThan(0);
    expect(() => lock.fencingTokenOf('other')).toThrow(LockKeyError);
  });

  it('are all free again when one of them cannot be had [R24]', async () => {
    const { clock, a, b } = two();
    await b.acquire('m');
    const call = outcome(a.acquire(['a', 'm', 'z'], { waitMs: 100 }));
    await clock.advance(200);
    expect(await call).toBeInstanceOf(LockNotAcquiredError);
    expect(await b.inspect('a')).toBeNull();
    expect(await b.inspect('z')).toBeNull();
    expect(a.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('are kept by a call that waits for another one', async () => {
    const { clock, a, b } = two();
    const first = await b.acquire('m');
    const call = a.acquire(['a', 'm'], { waitMs: 10_000 });
    await clock.advance(200);
    expect(await b.tryAcquire('a')).toBeNull();
    await first.release();
    expect((await call).keys).toEqual(['a', 'm']);
  });

  it('cannot deadlock callers that name them in different orders [R24, D141]', async () => {
    const { a, b } = two();
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await settled();
      inside--;
    };
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        (i % 2 === 0 ? a : b).withLock(i % 3 === 0 ? ['x', 'y'] : ['y', 'x'], {}, work),
      ),
    );
    expect(most).toBe(1);
  });

  it('are lost together: the signal aborts for any of them', async () => {
    const { a, b } = two();
    const lock = await a.acquire(['x', 'y']);
    const { signal } = lock;
    await b.forceRelease('y');
    await settled();
    expect(signal.aborted).toBe(true);
    expect(() => lock.assertHeld()).toThrow(/'y' was lost/);
  });

  it.each([[[]], [[''] as string[]], [['ok', 'bad{brace}']]])('refuses %j [D136]', async (keys) => {
    const { a } = two();
    await expect(a.acquire(keys)).rejects.toThrow(LockKeyError);
  });
});

describe('the wall clock', () => {
  it.each([3_600_000, -3_600_000])(
    'stepped by %i ms changes nothing for a holder',
    async (step) => {
      const { clock, a, b } = two();
      const hold = await a.acquire('k');
      const waiter = b.acquire('k', { waitMs: Infinity });
      clock.stepWall(step);
      await clock.advance(60_000);
      expect(hold.isHeld).toBe(true);
      const token = hold.fencingToken;
      await hold.release();
      await settled();
      expect((await waiter).fencingToken).toBeGreaterThan(token);
    },
  );
});

it('an option that is a member of a class also reaches tryAcquire', async () => {
  const { a } = two();
  class Short {
    get leaseMs(): number {
      return 700;
    }
  }
  const lock = await a.tryAcquire('k', new Short());
  expect(lock?.remainingMs()).toBeLessThanOrEqual(700);
});

describe('an unknown option', () => {
  const loosely = (options: object): object => options;

  it.each<[string, object, string]>([
    ['of another library', { ttl: 5 }, "Unknown option 'ttl': did you mean 'leaseMs'?"],
    [
      'without a counterpart',
      { retryDelay: 5 },
      "Unknown option 'retryDelay': leave it out: a waiting call",
    ],
    [
      'of the module',
      { name: 'billing' },
      "Unknown option 'name': write label to name the call, or service",
    ],
    [
      'of a third library',
      { autoExtend: true },
      "Unknown option 'autoExtend': did you mean 'renew'?",
    ],
    ['misspelt', { waitMS: 5 }, "Unknown option 'waitMS': did you mean 'waitMs'?"],
    [
      'of the module',
      { keyPrefix: 'a:' },
      "Unknown option 'keyPrefix': it is an option of the module",
    ],
    ['of @Locked', { service: 'a' }, "Unknown option 'service': it is an option of @Locked"],
  ])('%s is refused by every method, before any command', async (_, wrong, message) => {
    const { a } = two();
    for (const call of [
      a.acquire('k', loosely(wrong)),
      a.tryAcquire('k', loosely(wrong)),
      a.withLock('k', loosely(wrong), () => 5),
    ]) {
      await expect(call).rejects.toThrow(message);
      await expect(call).rejects.toBeInstanceOf(LockConfigError);
    }
    expect(await a.inspect('k')).toBeNull();
  });

  it('a value that is not an object is also refused', async () => {
    const { a } = two();
    for (const wrong of [null, 5, [], () => {}]) {
      const options = wrong as unknown as object;
      await expect(a.tryAcquire('k', options)).rejects.toThrow('Invalid options');
      await expect(a.acquire('k', options)).rejects.toThrow('Invalid options');
    }
  });

  it('null is refused as a value by tryAcquire and acquire', async () => {
    const { a } = two();
    const options = { waitMs: null } as object;
    for (const call of [a.acquire('k', options), a.tryAcquire('k', options)]) {
      await expect(call).rejects.toThrow('Invalid option waitMs: null must be a whole number');
    }
    expect(await a.inspect('k')).toBeNull();
    expect(await a.tryAcquire('k', { waitMs: undefined } as object)).not.toBeNull();
  });

  it('onBusy is refused by acquire and tryAcquire', async () => {
    const { a } = two();
    const options = { onBusy: 'skip' } as object;
    await expect(a.acquire('k', options)).rejects.toThrow(
      "Unknown option 'onBusy': acquire takes none",
    );
    await expect(a.tryAcquire('k', options)).rejects.toThrow('tryAcquire takes none');
    const time = 30_000 as never;
    await expect(a.acquire('k', time)).rejects.toThrow(
      'must be an object of options: { waitMs, maxWaiters, leaseMs, maxHoldMs, … }; the lease is renewed until the release, so it needs no time: to change how long it lasts after a crash, write { leaseMs }',
    );
    await expect(a.tryAcquire('k', (() => 'ran') as never)).rejects.toThrow(
      'a function must be an object of options: { waitMs, maxWaiters, leaseMs, maxHoldMs, … }; work belongs to withLock(key, work)',
    );
    await expect(a.acquire('k', 'b' as never)).rejects.toThrow(/maxHoldMs, … }$/);
  });

  it.each([
    ['keyPrefix', 'it is an option of the module, not of a call; pass it to RedisLockModule.forR'],
    ['connection', 'it is an option of the module'],
    ['startMs', 'leave it out, or write one of waitMs, maxWaiters, leaseMs'],
    ['lingerMs', 'it is an option of the module, not of a call; pass it to RedisLockModule.forR'],
    ['returns', 'it is an option of @Locked; elsewhere, leave it out'],
    ['releaseTime', "did you mean 'leaseMs'?"],
    ['retries', "did you mean 'waitMs'?"],
  ])('the option %s is no option of a call', async (name, advice) => {
    const { a } = two();
    await expect(a.acquire('k', { [name]: 1 })).rejects.toThrow(
      `Unknown option '${name}': ${advice}`,
    );
  });
});

it('options of the fence may be members of a class', () => {
  class FenceConfig {
    get table(): string {
      return 'app.lock_fence';
    }
    get connections(): string[] {
      return ['orders'];
    }
  }
  const { fence } = resolveServiceOptions({ fence: new FenceConfig() }).transactions;
  expect(fence).toEqual({ table: 'app.lock_fence', connections: ['orders'] });
});

it.each<[string, object]>([
  [
    'members of a class',
    new (class {
      get idleMs(): number {
        return 1_000;
      }
      get totalMs(): number {
        return 5_000;
      }
    })(),
  ],
  ['inherited', Object.create({ idleMs: 1_000, totalMs: 5_000 }) as object],
])('time-outs of transactions may be %s', (_, transactionTimeouts) => {
  const { timeouts } = resolveServiceOptions({ transactionTimeouts }).transactions;
  expect(timeouts).toEqual({ idleMs: 1_000, totalMs: 5_000 });
});
