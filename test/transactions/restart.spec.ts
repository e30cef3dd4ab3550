import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  InjectLockService,
  LockAbortedError,
  LockInTransactionError,
  LockLostError,
  LockNotAcquiredError,
  type LockOptions,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const openAware = async (): Promise<DataSource> =>
  lockAwareDataSource(await openDataSource('postgres', postgres.settings));

const RESTART = { insideTransaction: 'restart' } as const;

/** Starts a process that restarts transactions, and the locks of another process. */
async function startBesideOthers() {
  const dataSource = await openAware();
  const { locks } = await startLocks(redis.url, RESTART);
  const { locks: others } = await startLocks(redis.url);
  return { dataSource, locks, others };
}

@Injectable()
class Services {
  constructor(
    readonly plain: LockService,
    @InjectLockService('billing') readonly billing: LockService,
  ) {}
}

describe('a restart for keys of two lock services', () => {
  /** Starts one of several processes, which have both services but open them in different orders. */
  const startBoth = async (billingFirst: boolean, keyPrefix: string): Promise<Services> => {
    const connection = redis.url;
    const modules = [
      RedisLockModule.forRoot({ ...RESTART, connection }),
      RedisLockModule.forRoot({ ...RESTART, connection, name: 'billing', keyPrefix }),
    ];
    const imports = billingFirst ? modules.reverse() : modules;
    return (await startNest({ imports, providers: [Services] })).get(Services);
  };

  it.each(['lock:', 'billing:'])(
    'takes them in one order: calls in opposite orders all succeed, with prefixes lock: and %s [D68]',
    async (keyPrefix) => {
      const dataSource = await openAware();
      const processes = await Promise.all([
        startBoth(false, keyPrefix),
        startBoth(true, keyPrefix),
      ]);
      const a = uniqueKey('a');
      const b = keyPrefix === 'billing:' ? a : uniqueKey('b'); // with a prefix, the same key is another lock
      const sell = (i: number): Promise<void> => {
        const { plain, billing } = processes[i % 2] as Services;
        const asks = [
          () => plain.withLock(a, () => sleep(2)),
          () => billing.withLock(b, () => sleep(2)),
        ];
        if (i % 4 < 2) asks.reverse();
        return dataSource.transaction(async (manager) => {
          for (const ask of asks) await ask();
          await stock.takeOne(manager);
        });
      };
      await Promise.all(Array.from({ length: 20 }, (_, i) => sell(i))); // calls that wait for each other would fail
      expect(await stock.quantity()).toBe(80);
    },
  );
});

describe('a signal that aborts after its run was abandoned', () => {
  const ENDLESS = { waitMs: Infinity } as const;

  it('cancels the wait if it aborts while the transaction is rolled back', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    await using busy = await others.acquire(stock.key);
    void busy;
    const leaving = new AbortController();
    const sale = dataSource.transaction(async (manager) => {
      const options = { ...ENDLESS, signal: leaving.signal };
      const sold = locks.withLock(stock.key, options, () => stock.takeOne(manager));
      await Promise.all([manager.query('SELECT pg_sleep(0.4)'), sold]); // ROLLBACK waits for it
    });
    setTimeout(() => leaving.abort(), 200);
    await expect(sale).rejects.toBeInstanceOf(LockAbortedError);
  });

  it('cancels the wait if it aborts while the body still works', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    await using busy = await others.acquire(stock.key);
    void busy;
    const leaving = new AbortController();
    let runs = 0;
    const sale = dataSource.transaction(async (manager) => {
      runs++;
      const options = { ...ENDLESS, signal: leaving.signal };
      try {
        await locks.withLock(stock.key, options, () => stock.takeOne(manager));
      } catch (error) {
        leaving.abort();
        await sleep(20);
        throw error;
      }
    });
    await expect(sale).rejects.toBeInstanceOf(LockAbortedError);
    expect(runs).toBe(2);
  });

  it('ends nothing if it belongs only to the call of that run, even in a branch that ends late', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const busy = await others.acquire(stock.key);
    setTimeout(() => void busy.release(), 4_000); // later than 8 runs could begin
    const sale = dataSource.transaction(async (manager) => {
      const leaving = new AbortController();
      const branch = async (): Promise<void> => {
        try {
          const options = { ...ENDLESS, signal: leaving.signal };
          await locks.withLock(stock.key, options, () => stock.takeOne(manager));
        } finally {
          await sleep(30);
          leaving.abort();
        }
      };
      await manager.query('SELECT 1');
      const slow = manager.query('SELECT pg_sleep(0.3)'); // ROLLBACK waits for it
      const other = (): Promise<void> => locks.withLock(stock.key, async () => {});
      const gone = locks.withLock(stock.key, { signal: AbortSignal.abort() }, async () => {});
      await Promise.all([gone.catch(() => {}), branch(), other(), slow]);
    });
    await sale;
    expect(await stock.quantity()).toBe(99);
  });

  it('cancels the wait if it aborts during the wait for another key', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const [first, second] = [uniqueKey('a'), uniqueKey('b')];
    await using busy = await others.acquire(second);
    void busy;
    const leaving = new AbortController();
    const [works, asked] = [makeGate(), makeGate()];
    const sale = dataSource.transaction(() =>
      locks.withLock(first, { waitMs: 60_000 }, async () => {
        works.open();
        await asked.opened;
        await sleep(100);
        await locks.withLock(second, { ...ENDLESS, signal: leaving.signal }, async () => {});
      }),
    );
    const aborted = expect(sale).rejects.toBeInstanceOf(LockAbortedError);
    await works.opened;
    const again = others.acquire(first); // gets the lock as soon as it is released
    asked.open();
    const lock = await again;
    await sleep(100);
    leaving.abort();
    await lock.release();
    await aborted;
  });
});

describe('a signal that each run creates', () => {
  /** A call with a signal that its own `finally` aborts, `late` milliseconds after the call has ended. */
  const asked = async <T>(late: number, ask: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const leaving = new AbortController();
    try {
      return await ask(leaving.signal);
    } finally {
      if (late === 0) leaving.abort();
      else setTimeout(() => leaving.abort(), late);
    }
  };

  /** Ignores the error of a call whose signal has aborted. */
  const unlessAborted = (call: Promise<unknown>): Promise<unknown> =>
    call.catch((error: unknown) => {
      if (!(error instanceof LockAbortedError)) throw error;
    });

  it('makes the call wait no longer than its waitMs, over all runs together', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const busy = await others.acquire(stock.key);
    setTimeout(() => void busy.release(), 2_400);
    const [works, ends] = [makeGate(), makeGate()];
    let runs = 0;
    const sale = dataSource.transaction(async () => {
      runs++;
      await asked(2_800, (signal) =>
        locks.withLock(stock.key, { waitMs: 3_400, signal }, async () => {
          works.open();
          await ends.opened;
          await locks.withLock(uniqueKey('second'), async () => {});
        }),
      );
    });
    const refused = expect(sale).rejects.toBeInstanceOf(LockNotAcquiredError);
    await Promise.race([works.opened, refused]);
    const again = others.acquire(stock.key); // gets the lock as soon as it is released
    await sleep(1_000); // the signal of the first run has aborted by then
    ends.open();
    await using lock = await again;
    void lock;
    const startedAt = performance.now();
    await refused;
    expect(performance.now() - startedAt).toBeLessThan(3_200);
    expect(runs).toBe(3);
  });

  it('is ignored after a refusal, too', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const busy = await others.acquire(stock.key);
    let runs = 0;
    await dataSource.transaction(async (manager) => {
      runs++;
      const sold = await asked(0, (signal) => {
        const options = { waitMs: 50, onBusy: 'skip', signal } as const;
        return locks.withLock(stock.key, options, () => 'sold');
      });
      if (sold !== undefined) return;
      setTimeout(() => void busy.release(), 600);
      await asked(0, (signal) =>
        locks.withLock(stock.key, { waitMs: 20_000, signal }, () => stock.takeOne(manager)),
      );
    });
    expect(runs).toBe(4);
  });

  it('does not affect the signal that belongs to another key', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const [first, second] = [uniqueKey('a'), uniqueKey('b')];
    const busy = await others.acquire(first);
    await using busyNext = await others.acquire(second);
    void busyNext;
    const leaving = new AbortController();
    const sale = dataSource.transaction(async () => {
      await asked(0, (signal) =>
        locks.withLock(first, { waitMs: 50, onBusy: 'skip', signal }, async () => {}),
      );
      setTimeout(() => void busy.release(), 300);
      const options = { waitMs: 60_000, signal: leaving.signal };
      try {
        await locks.withLock([first, second], options, async () => {});
      } finally {
        leaving.abort();
      }
    });
    await expect(sale).rejects.toBeInstanceOf(LockAbortedError);
  });

  it('does not affect the signal of another call', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    await using busy = await others.acquire(stock.key);
    void busy;
    const [gone, leaving] = [new AbortController(), new AbortController()];
    const ask = ({ signal }: AbortController): Promise<unknown> =>
      locks.withLock(stock.key, { waitMs: 60_000, signal }, () => 'sold');
    const sale = dataSource.transaction(async () => {
      const first = ask(gone);
      gone.abort();
      await unlessAborted(first);
      await ask(leaving).finally(() => leaving.abort());
    });
    await expect(sale).rejects.toBeInstanceOf(LockAbortedError);
  });

  type Ask = (signal: AbortSignal) => Promise<unknown>;

  it.each<[string, (ask: Ask, gone: AbortController) => Promise<unknown>]>([
    [
      'whose caller has left',
      (ask, gone) => {
        const first = ask(AbortSignal.any([gone.signal])); // a new signal in each run
        gone.abort();
        return unlessAborted(first);
      },
    ],
    ['that was refused', (ask) => asked(0, ask)],
  ])('does not hide the signal of a later call, after one %s', async (_, askFirst) => {
    const { dataSource, locks, others } = await startBesideOthers();
    await using busy = await others.acquire(stock.key);
    void busy;
    const [gone, leaving] = [new AbortController(), new AbortController()];
    const sale = dataSource.transaction(async () => {
      await askFirst((signal) => {
        const options = { waitMs: 50, onBusy: 'skip', signal } as const;
        return locks.withLock(stock.key, options, () => 'sold');
      }, gone);
      setTimeout(() => leaving.abort(), 400);
      await locks.withLock(stock.key, { waitMs: 60_000, signal: leaving.signal }, () => 'sold');
    });
    await expect(sale).rejects.toBeInstanceOf(LockAbortedError);
  });

  it('that has aborted is the error of the call, even if its key is busy', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    await using busy = await others.acquire(stock.key);
    void busy;
    const sale = dataSource.transaction(async () => {
      const tried = await locks.tryAcquire(stock.key);
      await tried?.release();
      await locks.withLock(stock.key, { waitMs: 0, signal: AbortSignal.abort() }, () => 'sold');
    });
    await expect(sale).rejects.toBeInstanceOf(LockAbortedError);
  });
});

describe('an abandoned run', () => {
  const KEEP = { holdAtLeastMs: 3_000 } as const;

  it.each<[string, LockOptions & { onBusy?: 'skip' }]>([
    ['skipped', { ...KEEP, waitMs: 0, onBusy: 'skip' }],
    ['waited for', { ...KEEP, waitMs: 1_000 }],
  ])('keeps no key taken for its work, which the next run does again: %s', async (_, options) => {
    const { dataSource, locks, others } = await startBesideOthers();
    const second = uniqueKey('second');
    let runs = 0;
    await dataSource.transaction(async (manager) => {
      runs++;
      const work = (): Promise<void> => stock.takeOne(manager);
      await locks.withLock(stock.key, options, () => locks.withLock(second, work));
    });
    expect([runs, await stock.quantity()]).toEqual([3, 99]);
    expect(await others.tryAcquire(stock.key)).toBeNull(); // now the work is done
  });

  it('leaves no key taken by a call that was aborted before its work', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const leaving = new AbortController();
    const sale = dataSource.transaction(async () => {
      const options = { ...KEEP, signal: leaving.signal };
      try {
        await locks.withLock(stock.key, options, async () => {});
      } catch (error) {
        leaving.abort();
        throw error;
      }
    });
    await expect(sale).rejects.toBeInstanceOf(LockAbortedError);
    await using free = await others.tryAcquire(stock.key);
    expect(free).not.toBeNull();
  });

  it('keeps none taken that a call has joined, even if the key is held outside the transaction', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const second = uniqueKey('second');
    await using busy = await others.acquire(second);
    void busy;
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await locks.withLock(stock.key, KEEP, () => stock.takeOne(manager));
        await locks.withLock(second, { waitMs: 200 }, async () => {});
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockNotAcquiredError);
    await using free = await others.tryAcquire(stock.key);
    expect(free).not.toBeNull();
  });

  it('keeps keys taken that surviving code has joined', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    await locks.withLock(stock.key, async () => {
      let late = Promise.resolve();
      await dataSource.transaction(async () => {
        late = sleep(300).then(() => locks.withLock(stock.key, KEEP, () => {}));
      });
      await late;
    });
    expect(await others.tryAcquire(stock.key)).toBeNull();
  });

  it('keeps none taken that was acquired inside it', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const second = uniqueKey('second');
    let runs = 0;
    await dataSource.transaction(async (manager) => {
      runs++;
      const options = { ...KEEP, insideTransaction: 'join', waitMs: 0, onBusy: 'skip' } as const;
      await locks.withLock(stock.key, options, () => stock.takeOne(manager));
      await locks.withLock(second, async () => {});
    });
    expect([runs, await stock.quantity()]).toEqual([2, 99]);
    expect(await others.tryAcquire(stock.key)).toBeNull(); // now the work is done
  });
});

describe('a call that waits inside a transaction that fails meanwhile', () => {
  it('does not wait for itself: it takes an ordinary lock then', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const busy = await others.acquire(stock.key);
    setTimeout(() => void busy.release(), 500);
    let called: Promise<unknown> | undefined;
    const failing = dataSource.transaction(async () => {
      const options = { insideTransaction: 'join', holdAtLeastMs: 3_000 } as const;
      called = locks.withLock(stock.key, options, () => 'sold');
      await sleep(100);
      throw new Error('body');
    });
    await expect(failing).rejects.toThrow('body');
    expect(await called).toBe('sold');
    expect(await others.tryAcquire(stock.key)).toBeNull();
  });
});

describe.each(['restart', 'join'] as const)('a lock that does not join, with %s', (how) => {
  const ALONE = { reentrant: false, waitMs: 500 } as const;

  it.each<[string, (locks: LockService, key: string) => Promise<unknown>]>([
    ['withLock', (locks, key) => locks.withLock(key, ALONE, () => 'done')],
    ['a single try', (locks, key) => locks.withLock(key, { ...ALONE, waitMs: 0 }, () => 'done')],
    [
      'acquire',
      async (locks, key) => {
        await using lock = await locks.acquire(key, ALONE);
        return lock.isHeld ? 'done' : 'lost';
      },
    ],
    [
      'tryAcquire',
      async (locks, key) => {
        await using lock = await locks.tryAcquire(key, ALONE);
        return lock === null ? 'busy' : 'done';
      },
    ],
  ])(
    'does not wait for keys that its own transaction has taken for it: %s, twice',
    async (_, ask) => {
      const { locks } = await startLocks(redis.url, { insideTransaction: how });
      const dataSource = await openAware();
      const asked = dataSource.transaction(async () => [
        await ask(locks, stock.key),
        await ask(locks, stock.key),
      ]);
      expect(await asked).toEqual(['done', 'done']);
    },
  );

  it('does not join the outer call', async () => {
    const { locks } = await startLocks(redis.url, { insideTransaction: how });
    const dataSource = await openAware();
    const nested = dataSource.transaction(() =>
      locks.withLock(stock.key, ALONE, () => locks.withLock(stock.key, ALONE, () => 'joined')),
    );
    await expect(nested).rejects.toBeInstanceOf(LockNotAcquiredError);
  });
});

describe('a restart for several keys', () => {
  it('holds each of them with the options of the call that requested it [R57, D69]', async () => {
    const dataSource = await openAware();
    const { locks } = await startLocks(redis.url, RESTART);
    const [short, long] = [uniqueKey('short'), uniqueKey('long')];
    const lengths = await dataSource.transaction('REPEATABLE READ', async () => {
      const one = await locks.withLock(long, async (lock) => lock.remainingMs());
      const other = await locks.withLock(short, { leaseMs: 700 }, async (lock) =>
        lock.remainingMs(),
      );
      return [one, other];
    });
    expect(lengths[0]).toBeGreaterThan(15_000);
    expect(lengths[1]).toBeLessThan(701);
  });

  it('waits for each as long as the call that requested it [D69]', async () => {
    const dataSource = await openAware();
    const { locks } = await startLocks(redis.url, RESTART);
    const [patient, single] = [uniqueKey('patient'), uniqueKey('single')];
    const busy = await locks.acquire(patient);
    setTimeout(() => void busy.release(), 600);
    const got = await dataSource.transaction('REPEATABLE READ', async () => {
      const tried = await locks.tryAcquire(single);
      await tried?.release();
      return locks.withLock(patient, async () => tried !== null);
    });
    expect(got).toBe(true);
  });

  it('waits for each no longer than its waitMs, over all runs together', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const busy = await others.acquire(stock.key);
    setTimeout(() => void busy.release(), 1_200);
    const [works, asked] = [makeGate(), makeGate()];
    let runs = 0;
    const sale = dataSource.transaction(async () => {
      runs++;
      await locks.withLock(stock.key, { waitMs: 1_700 }, async () => {
        works.open();
        await asked.opened;
        await sleep(100);
        await locks.withLock(uniqueKey('second'), async () => {});
      });
    });
    const refused = expect(sale).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
    await works.opened;
    const again = others.acquire(stock.key); // gets the lock as soon as it is released
    asked.open();
    const lock = await again;
    const startedAt = performance.now();
    await refused;
    expect(performance.now() - startedAt).toBeLessThan(1_400);
    expect(runs).toBe(2);
    await lock.release();
  });

  it('counts the wait for each from when it was requested', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const [first, second] = [uniqueKey('a'), uniqueKey('b')];
    const [busy, busyNext] = [await others.acquire(first), await others.acquire(second)];
    setTimeout(() => void busy.release(), 1_500);
    const wait = { waitMs: 2_700 };
    let runs = 0;
    await dataSource.transaction('REPEATABLE READ', async () => {
      runs++;
      await locks.withLock(first, wait, async () => {});
      if (runs === 2) setTimeout(() => void busyNext.release(), 1_800);
      await locks.withLock(second, wait, async () => {});
    });
    expect(runs).toBe(3);
  });

  it('fails with the error of its body, even if that looks as if one of its keys were busy', async () => {
    const dataSource = await openAware();
    const { locks } = await startLocks(redis.url, RESTART);
    const thrown = new LockNotAcquiredError('of another service', stock.key, 0);
    const tries: boolean[] = [];
    const sale = dataSource.transaction('REPEATABLE READ', async () => {
      const tried = await locks.tryAcquire(stock.key);
      tries.push(tried !== null);
      await tried?.release();
      throw thrown;
    });
    await expect(sale).rejects.toBe(thrown);
    expect(tries).toEqual([true]);
  });

  it('asks again for a key after a failed single try, if another call would wait for it', async () => {
    const dataSource = await openAware();
    const { locks } = await startLocks(redis.url, RESTART);
    const busy = await locks.acquire(stock.key);
    setTimeout(() => void busy.release(), 600);
    const tries: boolean[] = [];
    await dataSource.transaction('REPEATABLE READ', async (manager) => {
      const tried = await locks.tryAcquire(stock.key);
      tries.push(tried !== null);
      await tried?.release();
      await locks.withLock(stock.key, () => stock.takeOne(manager));
    });
    expect([tries, await stock.quantity()]).toEqual([[false, true], 99]);
  });

  it('asks for it once for each call that would wait longer', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    await using busy = await others.acquire(stock.key);
    void busy;
    let runs = 0;
    const sold = dataSource.transaction(async () => {
      runs++;
      const tried = await locks.tryAcquire(stock.key);
      await tried?.release();
      return locks.withLock(stock.key, { waitMs: 100, onBusy: 'skip' }, () => 'sold');
    });
    expect([await sold, runs]).toEqual([undefined, 3]);
  });

  it('holds the free keys of a call, even if one is not free', async () => {
    const { dataSource, locks, others } = await startBesideOthers();
    const free = uniqueKey('free');
    await using busy = await others.acquire(stock.key);
    void busy;
    let runs = 0;
    const done = dataSource.transaction(async () => {
      runs++;
      const both = await locks.tryAcquire([free, stock.key]);
      await both?.release();
      return locks.withLock(free, { waitMs: 0, onBusy: 'skip' }, () => both ?? 'one of them');
    });
    expect([await done, runs]).toEqual(['one of them', 2]);
  });
});

describe('a new transaction before a lock inside the outer one, with the fence on', () => {
  it.each(['free', 'held by somebody else'])(
    'is refused in the run that has the lock from its beginning, if the lock is %s [D70]',
    async (state) => {
      const dataSource = await openAware();
      const { locks } = await startLocks(redis.url, { ...RESTART, fence: {} });
      const { locks: others } = await startLocks(redis.url);
      if (state !== 'free') {
        const other = await others.acquire(stock.key);
        setTimeout(() => void other.release(), 100);
      }
      const sale = dataSource.transaction(async (manager) => {
        await dataSource.transaction(async (inner) => void (await inner.query('SELECT 1')));
        await locks.withLock(stock.key, () => stock.takeOne(manager));
      });
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      await expect(sale).rejects.toThrow(/each would wait for the other/);
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
    },
  );
});

describe('acquire() around a transaction, with the fence on', () => {
  it('is refused before the transaction is opened, with the remedy [D71]', async () => {
    const dataSource = await openAware();
    const { locks } = await startLocks(redis.url, { fence: {} });
    const lock = await locks.acquire(stock.key);
    const sell = (): Promise<void> => dataSource.transaction((manager) => stock.takeOne(manager));
    await expect(sell()).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sell()).rejects.toThrow(/open the transaction inside lock\.run/);
    await lock.run(sell);
    expect([await stock.quantity(), await stock.fence()]).toEqual([99, lock.fencingToken]);
    await lock.release();
    await sell();
    expect(await stock.quantity()).toBe(98);
    const tried = await locks.tryAcquire(stock.key);
    await expect(sell()).rejects.toBeInstanceOf(LockInTransactionError);
    await tried?.release();
  });

  it('is refused for a query runner driven manually, too [D71]', async () => {
    const dataSource = await openAware();
    const { locks } = await startLocks(redis.url, { fence: {} });
    await using lock = await locks.acquire(stock.key);
    void lock;
    const runner = dataSource.createQueryRunner();
    await expect(runner.startTransaction()).rejects.toBeInstanceOf(LockInTransactionError);
    expect(runner.isTransactionActive).toBe(false);
    await runner.release();
  });

  const losses: [string, LockOptions, (locks: LockService) => Promise<unknown>][] = [
    ['to an operator', {}, (locks) => locks.forceRelease(stock.key)],
    ['after maxHoldMs', { maxHoldMs: 300, leaseMs: 500 }, () => sleep(400)],
  ];

  it.each(losses)(
    'is refused for a lock that was lost %s, until that is released',
    async (_, options, lose) => {
      const dataSource = await openAware();
      const { locks } = await startLocks(redis.url, { fence: {} });
      const sell = (): Promise<void> => dataSource.transaction((manager) => stock.takeOne(manager));
      const keys = [uniqueKey('other'), stock.key];
      const lock = await locks.acquire(keys, options);
      await lose(locks);
      expect([lock.signal.aborted, lock.isHeld]).toEqual([true, false]);
      await expect(sell()).rejects.toBeInstanceOf(LockLostError);
      const runner = dataSource.createQueryRunner();
      await expect(runner.startTransaction()).rejects.toBeInstanceOf(LockLostError);
      await runner.release();
      await expect(lock.run(sell)).rejects.toBeInstanceOf(LockLostError);
      expect(await stock.quantity()).toBe(100);
      await lock.release();
      await sell();
      expect(await stock.quantity()).toBe(99);
    },
  );

  it('is allowed for a lock that lasts as long as the application, and without a fence', async () => {
    const dataSource = await openAware();
    const { locks } = await startLocks(redis.url, { fence: {} });
    const { locks: unfenced } = await startLocks(redis.url);
    const leader = await locks.acquire(uniqueKey('leader'), { maxHoldMs: Infinity });
    const other = await unfenced.acquire(uniqueKey('other'));
    await dataSource.transaction((manager) => stock.takeOne(manager));
    expect(await stock.quantity()).toBe(99);
    await Promise.all([leader.release(), other.release()]);
  });
});
