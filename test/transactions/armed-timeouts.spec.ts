import { describe, expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { ArmedTimeouts } from '../../libs/nestjs-locked/src/transactions/sql/armed-timeouts.js';
import type { TransactionBounds } from '../../libs/nestjs-locked/src/transactions/sql/database-session.js';
import { sessionOf } from '../../libs/nestjs-locked/src/transactions/sql/session-of.js';

const HINT = /\[the database ends a transaction under a lock.*transactionTimeouts: /;

/** Time-outs that were armed, as a transaction does. */
const armed = async (
  bounds: TransactionBounds,
  {
    dialect = 'postgres',
    survives = true,
  }: { dialect?: 'postgres' | 'mysql'; survives?: boolean } = {},
): Promise<{ timeouts: ArmedTimeouts; sent: unknown[] }> => {
  const timeouts = new ArmedTimeouts();
  const sent: unknown[] = [];
  const session = sessionOf(dialect, async (_, params) => {
    sent.push(...params);
    return [{ answer: '' }];
  });
  await timeouts.watch(session, survives)?.arm(bounds);
  return { timeouts, sent };
};

const explained = (timeouts: ArmedTimeouts, error: Error): string => {
  timeouts.explain(error);
  return error.message;
};

const withCode = (code: string): Error => Object.assign(new Error('it took too long'), { code });

describe('an error of the database', () => {
  it.each([
    ['25P03', { idleMs: 150 }],
    ['25P04', { totalMs: 150 }],
    ['57014', { statementMs: 150 }],
    ['55P03', { lockMs: 150 }],
  ])('%s names the option that it comes from: %j [D91]', async (code, bounds) => {
    const { timeouts } = await armed(bounds);
    const error = withCode(code);
    const message = explained(timeouts, error);
    expect(message).toMatch(HINT);
    expect(message).toContain(`${Object.keys(bounds)[0]} 150`);
    expect(error.stack).toContain(message);
  });

  it('is told once, and stays what it is', async () => {
    const { timeouts } = await armed({ idleMs: 150 });
    const error = withCode('25P03');
    const once = explained(timeouts, error);
    expect(explained(timeouts, error)).toBe(once);
    expect(error).toMatchObject({ name: 'Error', code: '25P03' });
  });

  it.each([
    ['that a limit of somebody else has brought about', withCode('57014'), { idleMs: 150 }],
    ['of another kind', withCode('23505'), { idleMs: 1, statementMs: 150 }],
    ['of a lock', new LockLostError('is not queryable', 'key', 'expired'), { idleMs: 1 }],
    ['of the application', new Error('no stock'), { idleMs: 1 }],
  ])('%s is left alone', async (_, error, bounds) => {
    const { timeouts } = await armed(bounds);
    await sleep(5);
    expect(explained(timeouts, error)).not.toMatch(HINT);
  });

  it('is left alone where none can be armed', async () => {
    const { timeouts } = await armed({ idleMs: 1 }, { dialect: 'mysql' });
    await sleep(5);
    const error = new Error('Connection terminated unexpectedly');
    expect(explained(timeouts, error)).not.toMatch(HINT);
  });
});

describe('a connection that is gone', () => {
  const lost = (): Error =>
    new Error('Failed query: rollback', { cause: new Error('Client is not queryable') });

  it('may be gone because it was idle for long enough', async () => {
    const { timeouts } = await armed({ idleMs: 20 });
    expect(explained(timeouts, lost())).not.toMatch(HINT);
    await sleep(30);
    expect(explained(timeouts, lost())).toMatch(HINT);
  });
});

it('what ends connections is not armed for a driver that does not survive it', async () => {
  const { sent } = await armed(
    { idleMs: 1, totalMs: 2, statementMs: 3, lockMs: 4 },
    { survives: false },
  );
  expect(sent).toEqual(['3', '4']);
});
