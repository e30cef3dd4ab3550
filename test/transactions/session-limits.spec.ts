import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { TransactionStatus } from '../../libs/nestjs-locked/src/transactions/sql/database-session.js';
import type { TransactionBounds } from '../../libs/nestjs-locked/src/transactions/sql/database-session.js';
import { KnownDatabase } from '../../libs/nestjs-locked/src/transactions/sql/known-database.js';
import {
  ExpectedLimits,
  SessionLimits,
} from '../../libs/nestjs-locked/src/transactions/sql/session-limits.js';
import { sessionOf } from '../../libs/nestjs-locked/src/transactions/sql/session-of.js';

const BOUNDS: TransactionBounds = {
  idleMs: 8_000,
  statementMs: 10_000,
  lockMs: 10_000.7,
  totalMs: 600_000,
};

const settings = (shown: string): string[] | undefined =>
  ExpectedLimits.parse(shown)
    ?.armingFor(BOUNDS, Infinity)
    .settings.map(({ name, value }) => `${name}=${value}`);

describe('the limits that a session has', () => {
  it.each([
    ['none', '170000 0 0 0 0', ['8000', '10000', '10000', '600000']],
    ['wider ones', '170000 1h 1d 11s 0', ['8000', '10000', '10000', '600000']],
    ['stricter ones', '180004 600ms 500ms 3s 1min', []],
    ['the same', '180004 8s 10s 10s 10min', []],
    ['one that runs and is wider', '180004 1s 1s 1s 2h', ['0', '600000']],
    ['a server without a limit of the whole transaction', '150018 0 1s 0', ['8000', '10000']],
    ['a server that is older than this limit, but has one', '160000 0 1s 1s 0', ['8000']],
  ])('%s: ours are set where they are stricter', (_, shown, values) => {
    expect(settings(shown)?.map((setting) => setting.split('=')[1])).toEqual(values);
  });

  it.each(['', '180004', '180004 0 0', '180004 1fortnight 0 0 0', 'v24.1 on 0 0 0 0'])(
    'are not guessed: %j',
    (shown) => {
      expect(settings(shown)).toBeUndefined();
    },
  );

  it('are not expected any more where each session has others', () => {
    const limits = new SessionLimits();
    for (let n = 1; n < 100; n++) limits.learn(`180004 ${n}ms 0 0 0`);
    expect(limits.expected).toBeUndefined();
  });
});

describe('a claim that arms time-outs', () => {
  /** A database that refuses what expects other limits than it has. */
  const open = (shown: string) => {
    const sent: string[] = [];
    const state = { shown, fenced: false };
    const database = new KnownDatabase();
    const query = async (sql: string, params: unknown[]): Promise<unknown> => {
      sent.push(
        /^WITH former/.test(sql) ? 'general' : /^SELECT concat_ws/.test(sql) ? 'newest' : 'short',
      );
      if (sent.at(-1) === 'newest') return [{ answer: '9' }];
      const meetsExpectation = sent.at(-1) === 'general' || params.includes(state.shown);
      if (state.fenced || !meetsExpectation) return [];
      return [{ answer: `${sent.at(-1) === 'general' ? state.shown : ''}|a` }];
    };
    const claim = async (): Promise<string> => {
      const session = sessionOf('postgres', query, database);
      return (await session.claim('t', [{ key: 'a', fencingNumber: 5 }], BOUNDS, Infinity)).kind;
    };
    /** Two claims of one session: the second one finds what the first has armed. */
    const claimTwice = async (armed: string): Promise<void> => {
      const session = sessionOf('postgres', query, database);
      const own = state.shown;
      for (const now of [own, armed]) {
        state.shown = now;
        await session.claim('t', [{ key: 'a', fencingNumber: 5 }], BOUNDS, Infinity);
      }
      state.shown = own;
    };
    return { sent, state, claim, claimTwice };
  };

  it('needs the long statement only once', async () => {
    const { sent, claim } = open('180004 0 0 0 0');
    expect([await claim(), await claim(), await claim()]).toEqual(Array(3).fill('claimed'));
    expect(sent).toEqual(['general', 'short', 'short']);
  });

  it('finds out about other limits with the short one, and remembers them', async () => {
    const { sent, state, claim } = open('180004 0 0 0 0');
    await claim();
    state.shown = '180004 1min 0 0 0';
    expect([await claim(), await claim()]).toEqual(['claimed', 'claimed']);
    expect(sent).toEqual(['general', 'short', 'general', 'short']);
  });

  it('is refused for a newer token, not for limits that were expected', async () => {
    const { sent, state, claim } = open('180004 0 0 0 0');
    await claim();
    state.fenced = true;
    expect(await claim()).toBe('fenced');
    expect(sent).toEqual(['general', 'short', 'general', 'newest']);
  });

  it('takes what it has armed itself for no limit of the session', async () => {
    const { sent, claim, claimTwice } = open('180004 0 0 0 0');
    await claimTwice('180004 1min 0 0 0');
    await claim();
    expect(sent).toEqual(['general', 'general', 'short']);
  });

  it('stays with the long one on a server of another kind', async () => {
    const { sent, claim } = open('something else');
    await claim();
    await claim();
    expect(sent).toEqual(['general', 'general']);
  });
});

describe('before COMMIT', () => {
  const asks = async (status?: TransactionStatus, idleMs?: number): Promise<string[]> => {
    const sent: string[] = [];
    const session = sessionOf(
      'postgres',
      async (sql) => {
        sent.push(sql.split(' ', 1)[0] as string);
        return [{ answer: 'inside' }];
      },
      new KnownDatabase(),
      status === undefined ? undefined : { transactionStatus: status },
    );
    await session.beforeCommit(idleMs);
    return sent;
  };

  it('nothing is sent if the driver knows that the transaction is well', async () => {
    expect(await asks('open')).toEqual([]);
  });

  it('the database is asked if the driver knows nothing, or nothing good', async () => {
    expect([await asks(), await asks('failed')]).toEqual([['SELECT'], ['SELECT']]);
  });

  it('nothing may be committed if the driver knows of no transaction', async () => {
    await expect(asks('none')).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(asks('none', 500)).rejects.toThrow(/has ended the transaction before its COMMIT/);
  });

  it('a time-out for the COMMIT is armed, whatever the driver knows', async () => {
    expect(await asks('open', 500)).toEqual(['SELECT']);
  });
});
