import { describe, expect, it, jest } from '@jest/globals';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import {
  LockFencedError,
  LockInTransactionError,
  type LockLostError,
  LockNotAcquiredError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import type { LockServiceOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { ambientCoordinator } from '../../libs/nestjs-locked/src/transactions/scope/ambient-coordinator.js';
import type { TransactionDescription } from '../../libs/nestjs-locked/src/transactions/scope/transaction-description.js';
import type {
  ClaimOutcome,
  DatabaseSession,
  FenceClaim,
} from '../../libs/nestjs-locked/src/transactions/sql/database-session.js';
import {
  isMissingTable,
  isNotUnderstood,
  isRefusedCommit,
  sqlErrorCode,
} from '../../libs/nestjs-locked/src/transactions/sql/sql-error.js';
import { afterTest } from '../support/after-test.js';
import { makeGate } from '../support/gate.js';
import { uniqueKey } from '../support/unique-key.js';

describe('the scope of a transaction', () => {
  /** A database that gives scripted answers to claims, and records the claims. */
  class ScriptedDatabase implements DatabaseSession {
    readonly dialect = 'postgres';
    readonly armsBounds = true;
    readonly claims: (readonly FenceClaim[])[] = [];
    readonly answers: ClaimOutcome[] = [];
    level = 'read committed';
    /** How long each claim was allowed to wait. Each takes `claimMs`. */
    readonly waits: number[] = [];
    claimMs = 0;

    async begin(): Promise<void> {}
    async claim(
      _table: string,
      claims: readonly FenceClaim[],
      _bounds: unknown,
      waitMs: number,
    ): Promise<ClaimOutcome> {
      this.claims.push(claims);
      this.waits.push(waitMs);
      if (this.claimMs > 0) await sleep(this.claimMs);
      return this.answers.shift() ?? { kind: 'claimed' };
    }
    async arm(): Promise<void> {}
    async beforeCommit(): Promise<void> {}
    async isolation(): Promise<string> {
      return this.level;
    }
  }

  async function start(options: LockServiceOptions = {}) {
    const events: LockEvent[] = [];
    const engine = new LockEngine({
      store: new InMemoryLockStore(new InMemoryLocks(), 30_000),
      options: resolveServiceOptions(options),
      report: (event) => events.push(event),
    });
    await engine.open();
    afterTest(() => engine.close(0));
    const database = new ScriptedDatabase();
    const outcomes: string[] = [];
    /** Opens a transaction as an adapter does. */
    const transaction = <R>(
      body: () => Promise<R>,
      { limitMs, ...description }: Partial<TransactionDescription> & { limitMs?: number } = {},
    ): Promise<R> =>
      ambientCoordinator().run<R>(
        { isAmbient: () => true, session: () => database, ...description },
        async (enter) => {
          const run = enter({}, body);
          run.catch(() => {});
          try {
            const result = await (limitMs === undefined
              ? run
              : Promise.race([run, expiry(limitMs)]));
            outcomes.push('committed');
            return result;
          } catch (error) {
            outcomes.push('rolled back');
            throw error;
          }
        },
      );
    const key = uniqueKey('stock');
    const isFree = async (): Promise<boolean> => {
      const lock = await engine.tryAcquire(key);
      await lock?.release();
      return lock !== null;
    };
    return { engine, events, database, transaction, outcomes, key, isFree };
  }

  async function expiry(ms: number): Promise<never> {
    await sleep(ms);
    throw new Error('the transaction has expired');
  }

  describe('a transaction', () => {
    it('keeps a lock of several keys of which it knows one', async () => {
      const { engine, events, transaction, key } = await start();
      const other = uniqueKey('other');
      const end = makeGate();
      const left: Promise<unknown>[] = [];
      await engine.withLock([key, other], {}, async () => {
        left.push(engine.withLock(other, {}, () => end.opened));
        const opened = engine.withLock(key, {}, async () => {
          for (let i = 0; i < 100; i++) await Promise.resolve(); // until the outer call has ended
          await transaction(() => end.opened);
        });
        left.push(opened);
      });
      await sleep(10);
      expect(events).toContainEqual(
        expect.objectContaining({ type: 'outlived', by: 'transaction' }),
      );
      end.open();
      await Promise.all(left);
    });

    it('aborts the signal of its locks when it ends before its body', async () => {
      const { engine, transaction, key } = await start({ insideTransaction: 'join' });
      let told: unknown;
      const body = async (): Promise<void> => {
        await engine.withLock(key, {}, async ({ signal }) => {
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
          told = (signal.reason as LockLostError).reason;
        });
      };
      await expect(transaction(body, { limitMs: 30 })).rejects.toThrow('has expired');
      await sleep(10);
      expect(told).toBe('transaction-ended');
    });

    it('that ends before its body does not wait for work that still uses its lock', async () => {
      const { engine, transaction, key } = await start({ insideTransaction: 'join' });
      let isDone = false;
      let work: Promise<unknown> = Promise.resolve();
      const body = (): Promise<unknown> => {
        work = engine.withLock(key, {}, async () => {
          await sleep(500);
          isDone = true;
        });
        return work;
      };
      await expect(transaction(body, { limitMs: 30 })).rejects.toThrow('has expired');
      expect(isDone).toBe(false);
      await work.catch(() => {}); // its lock has ended with the transaction
      expect(isDone).toBe(true);
    });

    it('does not keep a lock that comes after it has ended: the work gets its own', async () => {
      const { engine, transaction, key, isFree } = await start({ insideTransaction: 'join' });
      const held = await engine.acquire(key);
      let late: Promise<unknown> = Promise.resolve();
      const body = async (): Promise<void> => {
        late = engine.withLock(key, { waitMs: 2_000 }, async () => 'work');
        await late;
      };
      await expect(transaction(body, { limitMs: 30 })).rejects.toThrow('has expired');
      await held.release();
      expect(await late).toBe('work');
      expect(await isFree()).toBe(true);
    });

    it('accepts no lock that comes while it is being committed, and claims nothing for it', async () => {
      const options = { insideTransaction: 'join', fence: {} } as const;
      const { engine, database, transaction, key, isFree } = await start(options);
      const held = await engine.acquire(key, { maxHoldMs: Infinity });
      const [committing, commit] = [makeGate(), makeGate()];
      database.beforeCommit = () => (committing.open(), commit.opened);
      let late: Promise<unknown> = Promise.resolve();
      const running = engine.withLock(uniqueKey('other'), {}, () =>
        transaction(async () => {
          late = engine.withLock(key, {}, async () => 'work');
          late.catch(() => {});
          await sleep(5);
        }),
      );
      await committing.opened;
      await held.release();
      await expect(late).rejects.toBeInstanceOf(LockInTransactionError);
      expect(database.claims).toHaveLength(1);
      commit.open();
      await running;
      expect(await isFree()).toBe(true);
    });

    it("fails with the database's own error if a claim inside it conflicts with another one", async () => {
      const options = { insideTransaction: 'join', fence: {} } as const;
      const { engine, database, transaction, outcomes, key } = await start(options);
      const cause = new Error('could not serialize access');
      database.answers.push({ kind: 'conflict', cause });
      const body = () => engine.withLock(key, {}, async () => 'work');
      await expect(transaction(body)).rejects.toBe(cause);
      expect(outcomes).toEqual(['rolled back']);
    });

    describe('waits no longer than waitMs for a lock that is requested inside', () => {
      const WAIT_MS = 2_000;
      /** Less than two waits, with a margin for a busy machine. */
      const LIMIT_MS = WAIT_MS + 1_700;
      type Tools = Awaited<ReturnType<typeof start>>;
      const wait = { waitMs: WAIT_MS };
      const notAcquired = LockNotAcquiredError;

      it.each<
        [string, LockServiceOptions, (tools: Tools, late: () => Promise<void>) => Promise<void>]
      >([
        [
          'join, behind a branch that waits for another key',
          { insideTransaction: 'join' },
          async ({ engine, key, transaction }, late) => {
            const first = await engine.acquire(key);
            await transaction(async () => {
              const branch = engine.withLock(key, { waitMs: 5_000 }, async () => {});
              await sleep(5);
              await late();
              await first.release();
              await branch;
            });
          },
        ],
        [
          'join, behind a branch that waits for most of that time',
          { insideTransaction: 'join' },
          async ({ engine, key, transaction }, late) => {
            const first = await engine.acquire(key);
            await transaction(async () => {
              const branch = engine.withLock(key, { waitMs: 5_000 }, async () => {});
              await sleep(5);
              setTimeout(() => void first.release(), WAIT_MS - 200);
              await late();
              await branch;
            });
          },
        ],
        [
          'join, a key that another branch got first',
          { insideTransaction: 'join' },
          async ({ engine, transaction, key }, late) => {
            const first = await engine.acquire(key);
            const isDone = makeGate();
            await transaction(async () => {
              const branch = engine.withLock([key, 'late'], { waitMs: 5_000 }, () => isDone.opened);
              await sleep(5);
              setTimeout(() => void first.release(), WAIT_MS - 200);
              await late();
              isDone.open();
              await branch;
            });
          },
        ],
        ['restart', { insideTransaction: 'restart' }, (_, late) => late()],
      ])('%s', async (how, options, play) => {
        const tools = await start(options);
        const { engine } = tools;
        const isTaken = !how.includes('another branch got first');
        const other = isTaken ? await engine.acquire('late') : undefined;
        let ms = 0;
        const begun = performance.now();
        const late = async (): Promise<void> => {
          const from = how === 'restart' ? begun : performance.now();
          await engine
            .withLock('late', wait, async () => {})
            .finally(() => {
              ms = performance.now() - from;
            });
        };
        const run = (): Promise<void> =>
          play(tools, () => expect(late()).rejects.toThrow(notAcquired));
        const restarted = (): Promise<void> =>
          expect(tools.transaction(late)).rejects.toThrow(notAcquired);
        await (how === 'restart' ? restarted() : run());
        if (how === 'restart') ms = performance.now() - begun;
        expect(ms).toBeGreaterThan(WAIT_MS / 2);
        expect(ms).toBeLessThan(LIMIT_MS);
        await other?.release();
      });

      it('a single try is not refused because of a branch that is about to get its answer', async () => {
        const { engine, key, transaction } = await start({ insideTransaction: 'join' });
        const done: string[] = [];
        const work = ({ key }: Lock): unknown => done.push(key);
        await transaction(async () => {
          const branch = engine.withLock(key, { waitMs: 20_000 }, work);
          await Promise.all([branch, engine.withLock('tried', { waitMs: 0 }, work)]);
        });
        expect(done).toEqual([key, 'tried']);
      });

      it('a single try does not wait for other branches either', async () => {
        const { engine, key, transaction } = await start({ insideTransaction: 'join' });
        const first = await engine.acquire(key);
        await transaction(async () => {
          const branch = engine.withLock(key, { waitMs: 20_000 }, async () => {});
          await sleep(5);
          const tried = engine.withLock('late', { waitMs: 0 }, async () => {});
          await expect(tried).rejects.toThrow(
            /other branches of the same transaction were waiting/,
          );
          await first.release();
          await branch;
        });
      });
    });

    it('keeps a lock for assertHeld(), which throws if it is lost meanwhile', async () => {
      const { engine, transaction, key } = await start({ insideTransaction: 'join' });
      const codeOf = (asserted?: string): unknown => {
        try {
          engine.assertHeld(asserted);
          return 'held';
        } catch (error) {
          return (error as LockLostError).code;
        }
      };
      const body = async (): Promise<void> => {
        await engine.withLock(key, {}, async () => {});
        expect(engine.current()).toBeUndefined();
        expect([codeOf(), codeOf(key), codeOf('x')]).toEqual(['held', 'held', 'LOCK_NOT_HELD']);
        await engine.forceRelease(key);
        expect([codeOf(), codeOf(key)]).toEqual(['LOCK_LOST', 'LOCK_LOST']);
      };
      await expect(transaction(body)).rejects.toMatchObject({ code: 'LOCK_LOST' });
      expect(codeOf()).toBe('LOCK_NOT_HELD');
    });

    it('keeps a lock that is held elsewhere and becomes current inside', async () => {
      const { engine, transaction, key, isFree } = await start();
      const lock = await engine.acquire(key);
      await sleep(5);
      await transaction(async () => {
        await lock.run(async () => expect(engine.current(key)?.isHeld).toBe(true));
        void lock.release();
        await sleep(5);
        expect(await Promise.resolve(engine.current(key))).toBeUndefined();
        const other = engine.withLock(key, { insideTransaction: 'join', waitMs: 0 }, async () => 1);
        await expect(other).rejects.toBeInstanceOf(LockNotAcquiredError);
      });
      await sleep(5);
      expect(await isFree()).toBe(true);
    });

    it('refuses a lock that was acquired elsewhere after it had begun', async () => {
      const { engine, transaction, key } = await start();
      const begun = makeGate();
      const elsewhere = begun.opened.then(() => sleep(2)).then(() => engine.acquire(key));
      const running = transaction(async () => {
        begun.open();
        const lock = await elsewhere;
        await lock.run(async () => {});
      });
      await expect(running).rejects.toBeInstanceOf(LockInTransactionError);
      await (await elsewhere).release();
    });

    it.each(['withLock', 'lock.run'] as const)(
      'answers a release under the lock of %s at once, and keeps the lock until it has ended [D61]',
      async (how) => {
        const { engine, transaction, outcomes, key, isFree } = await start();
        const sell = (lock: Lock): Promise<void> =>
          transaction(async () => {
            expect(await lock.release()).toBe(true);
            expect(lock.isHeld).toBe(false);
            expect(await engine.inspect(key)).not.toBeNull();
          });
        if (how === 'withLock') await engine.withLock(key, {}, sell);
        else {
          const lock = await engine.acquire(key);
          await lock.run(() => sell(lock));
        }
        expect(outcomes).toEqual(['committed']);
        expect(await isFree()).toBe(true);
      },
    );

    it('is also run again for acquire(), and keeps locks that it released until its end', async () => {
      const { engine, transaction, outcomes, key, isFree } = await start({
        insideTransaction: 'restart',
      });
      const other = await engine.acquire(key);
      setTimeout(() => void other.release(), 20);
      await transaction(async () => {
        const lock = await engine.acquire(key);
        await lock.release();
        expect(await Promise.resolve(lock.isHeld)).toBe(false);
        outcomes.push('held');
      });
      expect(outcomes).toEqual(['rolled back', 'held', 'committed']);
      expect(await isFree()).toBe(true);
    });

    it('is run once more without a busy key, and the call gets the same error as outside', async () => {
      const { engine, transaction, outcomes, key } = await start({ insideTransaction: 'restart' });
      const other = await engine.acquire(key);
      const skipped = await transaction(() =>
        engine.withLock(key, { waitMs: 0, onBusy: 'skip' }, () => 'ran'),
      );
      expect(skipped).toBeUndefined();
      expect(outcomes).toEqual(['rolled back', 'committed']);
      await other.release();
    });

    it('gives up if each run requests other keys', async () => {
      const { engine, transaction, database, outcomes } = await start({
        insideTransaction: 'restart',
      });
      database.level = 'repeatable read';
      const running = transaction(() => engine.withLock(uniqueKey('other'), {}, async () => {}));
      await expect(running).rejects.toThrow(/restarted 8 times/);
      expect(outcomes).toHaveLength(9);
    });

    it('gives up if each run acquires the lock again in a new context', async () => {
      const { engine, transaction, outcomes, key, isFree } = await start({
        insideTransaction: 'restart',
      });
      const elsewhere = AsyncLocalStorage.snapshot();
      const running = transaction(async () => {
        await sleep(2);
        const lock = await elsewhere(() => engine.acquire(key));
        await lock.run(() => {}).finally(() => lock.release());
      });
      await expect(running).rejects.toMatchObject({
        code: 'LOCK_IN_TRANSACTION',
        message: expect.stringMatching(/restarted 8 times.*acquired meanwhile/),
      });
      expect(outcomes).toHaveLength(9);
      expect(await isFree()).toBe(true);
    });

    it('lets code that an earlier run started take locks again, a while after the last run [D82]', async () => {
      const { engine, transaction, key } = await start({ insideTransaction: 'restart' });
      const started: { ask: () => Promise<string> }[] = [];
      await transaction(async () => {
        // Like a timer or listener that is created on first use, and keeps this context.
        if (started.length === 0) {
          const inThisContext = AsyncLocalStorage.snapshot();
          const ask = (): Promise<string> => engine.withLock(key, {}, async () => 'held');
          started.push({ ask: () => inThisContext(ask) });
        }
        await engine.withLock(key, {}, async () => {});
      });
      const ask = (): Promise<unknown> =>
        (started[0] as (typeof started)[0]).ask().catch((error: Error) => error.name);
      expect(await ask()).toBe('TransactionRestart');
      const now = performance.now.bind(performance);
      const later = jest.spyOn(performance, 'now').mockImplementation(() => now() + 10_001);
      afterTest(() => later.mockRestore());
      expect(await ask()).toBe('held');
    });

    it('fails with a reason if it must be restarted but was opened by hand', async () => {
      const { engine, transaction, key } = await start({ insideTransaction: 'restart' });
      const running = transaction(() => engine.withLock(key, {}, async () => {}), {
        notRestartable: 'by-hand',
      });
      await expect(running).rejects.toThrow(/opened by hand/);
    });

    it('that its driver repeats fails with the error of the last run', async () => {
      const { engine, database, key } = await start({ insideTransaction: 'join' });
      const other = await engine.acquire(key);
      const last = new Error('no stock');
      const errors: unknown[] = [];
      const repeated = ambientCoordinator().run(
        { isAmbient: () => true, session: () => database },
        async (enter) => {
          const busy = enter({}, () => engine.withLock(key, { waitMs: 0 }, async () => {}));
          await busy.catch((error: unknown) => errors.push(error));
          return enter({}, () => Promise.reject(last));
        },
      );
      await expect(repeated).rejects.toBe(last);
      expect(errors).toEqual([expect.any(LockNotAcquiredError)]);
      await other.release();
    });

    it('renews a lease before it is claimed [R53]', async () => {
      const { engine, transaction, database, key } = await start({ fence: {} });
      await engine.withLock(key, { leaseMs: 1_000, renew: false }, async (lock) => {
        await sleep(600);
        await transaction(async () => expect(lock.remainingMs()).toBeGreaterThan(560));
      });
      expect(database.claims).toEqual([
        [{ key, fencingNumber: expect.any(Number), isShared: false }],
      ]);
    });
  });

  describe('the gate', () => {
    /** The idle time that the gate requests from the database for the COMMIT. */
    const gateOf = async (
      options: LockServiceOptions,
      body: (engine: LockEngine) => Promise<unknown>,
    ): Promise<number | undefined> => {
      const { engine, database, transaction, key } = await start(options);
      let idleMs: number | undefined;
      database.beforeCommit = async (ms?: number) => void (idleMs = ms);
      await engine.withLock(key, {}, () => transaction(() => body(engine)));
      return idleMs;
    };

    it('arms nothing if the initial time-out is strict enough', async () => {
      expect(await gateOf({ transactionTimeouts: true }, async () => {})).toBeUndefined();
      expect(
        await gateOf({ transactionTimeouts: { idleMs: 500 } }, async () => {}),
      ).toBeUndefined();
    });

    it('arms a time-out if the lease of a later lock has less time left', async () => {
      const idleMs = await gateOf(
        { transactionTimeouts: true, insideTransaction: 'join' },
        (engine) => engine.withLock(uniqueKey('short'), { leaseMs: 1_000 }, async () => {}),
      );
      expect(idleMs).toBeGreaterThan(0);
      expect(idleMs).toBeLessThan(1_000);
    });

    it('asks if the database may have ended the transaction by now', async () => {
      expect(await gateOf({ transactionTimeouts: { idleMs: 20 } }, () => sleep(40))).toBe(20);
    });

    it('arms a time-out if there was no lock at the beginning', async () => {
      const { engine, database, transaction } = await start({
        transactionTimeouts: true,
        insideTransaction: 'join',
      });
      let idleMs: number | undefined;
      database.beforeCommit = async (ms?: number) => void (idleMs = ms);
      await transaction(() => engine.withLock(uniqueKey('late'), {}, async () => {}));
      expect(idleMs).toBeGreaterThan(8_000);
    });
  });

  describe('a claim', () => {
    it('restarts with the transaction when another one came in between', async () => {
      const { engine, transaction, database, outcomes, key } = await start({ fence: {} });
      database.answers.push({ kind: 'conflict', cause: new Error('40001') });
      let runs = 0;
      await engine.withLock(key, {}, () => transaction(async () => void runs++));
      expect({ runs, outcomes }).toEqual({ runs: 1, outcomes: ['rolled back', 'committed'] });
    });

    it("fails with the database's error after many conflicts", async () => {
      const { engine, transaction, database, key } = await start({ fence: {} });
      const conflict = { kind: 'conflict', cause: new Error('40001') } as const;
      database.answers.push(...Array.from({ length: 20 }, () => conflict));
      const running = engine.withLock(key, {}, () => transaction(async () => {}));
      await expect(running).rejects.toThrow('40001');
      expect(database.claims.length).toBeLessThan(15);
    });

    it('reports that an earlier holder is still in the database', async () => {
      const { engine, transaction, database, key } = await start({ fence: {} });
      database.answers.push({ kind: 'blocked', cause: new Error('55P03') });
      const running = engine.withLock(key, {}, () => transaction(async () => {}));
      await expect(running).rejects.toThrow(/transaction of an earlier holder/);
    });

    it('that failed forbids the commit, even if the error was swallowed', async () => {
      const { engine, transaction, database, outcomes, key } = await start({
        fence: {},
        insideTransaction: 'join',
      });
      database.answers.push({ kind: 'blocked', cause: new Error('1205') });
      const running = transaction(() => engine.withLock(key, {}, async () => {}).catch(() => {}));
      await expect(running).rejects.toBeInstanceOf(LockNotAcquiredError);
      expect(outcomes).toEqual(['rolled back']);
    });

    it('is finally refused if the number in the database keeps rising', async () => {
      const { engine, transaction, database, key } = await start({ fence: {} });
      const ahead = Date.now() * 1_000 + 60_000_000;
      for (let n = 0; n < 5; n++) {
        database.answers.push({
          kind: 'fenced',
          refused: [{ key, newest: ahead + n * 10_000_000 }],
        });
      }
      const running = engine.withLock(key, {}, () => transaction(async () => {}));
      await expect(running).rejects.toBeInstanceOf(LockFencedError);
      expect(database.claims).toHaveLength(3);
    });

    it("that is tried again waits only for the rest of its call's wait", async () => {
      const { engine, transaction, database, key } = await start({ fence: {} });
      database.claimMs = 400;
      const newest = Date.now() * 1_000 + 60_000_000;
      database.answers.push({ kind: 'fenced', refused: [{ key, newest }] });
      await engine.withLock(key, { waitMs: 2_000 }, () => transaction(async () => {}));
      const [first = 0, second = 0] = database.waits;
      expect(database.waits).toHaveLength(2);
      expect(first).toBeLessThanOrEqual(2_000);
      expect(first).toBeGreaterThan(1_000);
      expect(second).toBeLessThan(first - 390);
    });

    it('is made in one order, whatever the order of the locks', async () => {
      const { engine, transaction, database } = await start({ fence: {} });
      const keys = ['b', 'a', 'c'].map((name) => uniqueKey(name));
      const [first, ...rest] = keys as [string, string, string];
      await engine.withLock(rest, {}, () =>
        engine.withLock(first, {}, () => transaction(async () => {})),
      );
      const claimed = database.claims.flat().map(({ key }) => key);
      expect(claimed).toEqual([...keys].sort());
    });
  });
});

describe('errors of the database', () => {
  /** Errors as these libraries throw them, from the outermost to the innermost. */
  const prisma = (cause: object): Error =>
    Object.assign(new Error('Raw query failed'), {
      code: 'P2010',
      meta: { driverAdapterError: Object.assign(new Error(), { cause }) },
    });
  const sequelize = (original: object): Error =>
    Object.assign(new Error(), { original, parent: original });

  describe('the code of a database error', () => {
    it.each([
      ['pg', { code: '40001' }, '40001'],
      ['mysql2', { code: 'ER_LOCK_DEADLOCK', errno: 1213, sqlState: '40001' }, 1213],
      ['TypeORM', { driverError: { code: '23505' } }, '23505'],
      ['Drizzle', { cause: { code: '23505' } }, '23505'],
      ['Sequelize', sequelize({ code: '40001' }), '40001'],
      ['Sequelize on MySQL', sequelize({ errno: 1213, code: 'ER_LOCK_DEADLOCK' }), 1213],
      ['Prisma', prisma({ originalCode: '40001', kind: 'TransactionWriteConflict' }), '40001'],
      ['Prisma on MySQL', prisma({ originalCode: '1213', kind: 'TransactionWriteConflict' }), 1213],
      ['Prisma at COMMIT', { cause: { originalCode: '23505' } }, '23505'],
      ['Prisma with its own engine', { code: 'P2010', meta: { code: '40001' } }, '40001'],
      ['Prisma with its own engine, for a conflict', { code: 'P2034', meta: {} }, '40001'],
    ])('is found in the errors of %s [D84]', (_, error, code) => {
      expect(sqlErrorCode(error)).toBe(code);
    });

    it.each([
      ['nothing', undefined],
      ['a text', '40001'],
      ['an error of the application', new Error('no stock')],
      ['the operating system', { code: 'EPIPE', errno: -32 }],
      ['postgres.js itself', { code: 'CONNECTION_CLOSED', errno: 'CONNECTION_CLOSED' }],
      ['Prisma itself', { code: 'P2028', meta: { operation: 'commit' } }],
    ])('is not found in %s', (_, error) => {
      expect(sqlErrorCode(error)).toBeUndefined();
    });

    it('is found however the errors are nested', () => {
      const ring: Record<string, unknown> = {};
      ring['cause'] = { original: ring, parent: { cause: ring } };
      expect(sqlErrorCode(ring)).toBeUndefined();
      ring['meta'] = { driverError: { code: '40P01' } };
      expect(sqlErrorCode(ring)).toBe('40P01');
    });

    it('is searched for in a limited number of errors', () => {
      let read = 0;
      const endless = (): object => ({
        get cause() {
          read++;
          return endless();
        },
      });
      expect(sqlErrorCode(endless())).toBeUndefined();
      expect(read).toBeLessThan(50);
    });
  });

  describe('a COMMIT that failed', () => {
    it.each(['COMMIT', 'commit', 'COMMIT;'])(
      'was refused if it is the only statement: %s',
      (sql) => {
        expect(isRefusedCommit({ code: '23505', query: sql })).toBe(true);
        expect(isRefusedCommit({ sql, original: { code: '23505', sql } })).toBe(true);
      },
    );

    it('is in doubt if other statements follow it in its text', () => {
      expect(isRefusedCommit({ errno: 1062, sql: 'COMMIT; INSERT INTO sold VALUES (1)' })).toBe(
        false,
      );
    });

    it('is in doubt if a hook has replaced the answer with the error of its own statement', () => {
      const sql = 'INSERT INTO audit VALUES (1)';
      expect(isRefusedCommit({ code: '42P01', query: sql })).toBe(false);
      expect(isRefusedCommit({ sql, original: { code: '42P01', sql } })).toBe(false);
    });

    it.each([
      ['40001', 'a serialization failure'],
      ['40P01', 'a deadlock'],
      ['23505', 'a deferred constraint'],
      ['P0001', 'an exception of a deferred trigger'],
      ['42501', 'a permission that a deferred trigger lacks'],
      ['57014', 'a deferred trigger that takes too long'],
      ['25P03', 'a connection that was ended while nothing had been sent'],
      ['AB123', 'a code of the application'],
    ])('was refused with %s: %s', (code) => {
      expect(isRefusedCommit({ code })).toBe(true);
      expect(isRefusedCommit(sequelize({ code }))).toBe(true);
      expect(isRefusedCommit(prisma({ originalCode: code }))).toBe(true);
    });

    it.each([
      ['08006', 'a lost connection'],
      ['57P01', 'a server that is shut down'],
      ['58030', 'a disk that fails'],
      ['XX000', 'an internal error'],
      ['40003', 'an answer that says so'],
      ['EPIPE', 'a lost connection of the operating system'],
      ['', 'no answer'],
    ])('is in doubt with %s: %s', (code) => {
      expect(isRefusedCommit({ code })).toBe(false);
      expect(isRefusedCommit(sequelize({ code }))).toBe(false);
      expect(isRefusedCommit(prisma({ originalCode: code }))).toBe(false);
    });

    it.each([1020, 1062, 1064, 1205, 1213, 1290, 1451, 1452, 3101])(
      'was refused by MySQL with %s',
      (errno) => {
        expect(isRefusedCommit(sequelize({ errno }))).toBe(true);
        expect(isRefusedCommit(prisma({ originalCode: String(errno) }))).toBe(true);
      },
    );

    it.each([1053, 1317, 1927])('is in doubt with %s of MySQL', (errno) => {
      expect(isRefusedCommit(sequelize({ errno }))).toBe(false);
    });

    it('was not sent if Prisma had ended the transaction before', () => {
      expect(isRefusedCommit({ code: 'P2028', meta: { operation: 'commit' } })).toBe(true);
    });
  });

  describe('a COMMIT that MySQL may not have understood', () => {
    const errno = 1064;
    const other = 'INSERT nothing';

    it('was not understood if the error names no statement, or only that one', () => {
      expect(isNotUnderstood({ errno }, 'COMMIT')).toBe(true);
      expect(isNotUnderstood({ errno, sql: 'COMMIT' }, 'COMMIT')).toBe(true);
    });

    it('was understood if the error also belongs to another statement, such as that of a hook', () => {
      expect(isNotUnderstood({ errno, sql: other }, 'COMMIT')).toBe(false);
      const ofHook = { query: 'COMMIT', driverError: { errno, sql: other } };
      expect(isNotUnderstood(ofHook, 'COMMIT')).toBe(false);
    });
  });

  it.each([
    prisma({ originalCode: '42P01', kind: 'TableDoesNotExist' }),
    sequelize({ code: '42P01' }),
    sequelize({ errno: 1146 }),
  ])('a missing table is known as such', (error) => {
    expect(isMissingTable(error)).toBe(true);
  });
});
