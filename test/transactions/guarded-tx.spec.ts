import { describe, expect, it } from '@jest/globals';
import { guardedTx } from '../../libs/nestjs-locked/src/transactions/orm/guarded-tx.js';

const ENDS = /\b(?:COMMIT|END|ROLLBACK)\b/i;

/** A client that notes what is sent, and a guard that notes what it reads and refuses everything in the end. */
function guarded() {
  const sent: string[] = [];
  const read: string[] = [];
  let state: 'open' | 'failing' | 'ended' = 'open';
  const note = async (sql: string): Promise<void> => void sent.push(sql);
  const client = {
    query: note,
    unheardOf: note,
    none: note,
    func: note,
    escapeLiteral: (value: string) => `'${value}'`,
    prepare: async () => ({ execute: (values: string[]) => note(values.join()), close: () => {} }),
    task: (_name: string, body: (tx: { none: typeof note }) => Promise<unknown>) => body(client),
  };
  const guard = {
    assertTakes: (sql?: string) => {
      if (state !== 'open') throw new Error('refused');
      if (sql !== undefined && ENDS.test(sql)) read.push(sql);
    },
    mayRollBack: () => state !== 'ended',
  };
  const tx = guardedTx(client, undefined, guard) as typeof client;
  return {
    tx,
    sent,
    read,
    fail: () => void (state = 'failing'),
    end: () => void (state = 'ended'),
  };
}

describe('a guarded client', () => {
  it('rolls back after it has rolled back to a savepoint, which ends nothing', async () => {
    const { tx, sent, fail } = guarded();
    await tx.query('ROLLBACK TO SAVEPOINT a');
    await tx.query('ROLLBACK WORK TO a');
    fail();
    await tx.query('ROLLBACK');
    expect(sent).toEqual(['ROLLBACK TO SAVEPOINT a', 'ROLLBACK WORK TO a', 'ROLLBACK']);
  });

  it('rolls back only once: the connection may be somebody else’s then', async () => {
    const { tx, sent, fail } = guarded();
    fail();
    await tx.query('ROLLBACK');
    await expect(tx.query('ROLLBACK')).rejects.toThrow('refused');
    expect(sent).toEqual(['ROLLBACK']);
  });

  it.each(['ROLLBACK', 'ROLLBACK TO SAVEPOINT a', 'rollback to a', 'INSERT INTO a VALUES (1)'])(
    'sends no %s once its transaction has ended',
    async (sql) => {
      const { tx, sent, end } = guarded();
      end();
      await expect(tx.query(sql)).rejects.toThrow('refused');
      expect(sent).toEqual([]);
    },
  );

  it.each(['ROLLBACK TO SAVEPOINT a', 'INSERT INTO a VALUES (1)'])(
    'sends no %s while it is rolled back',
    async (sql) => {
      const { tx, sent, fail } = guarded();
      fail();
      await expect(tx.query(sql)).rejects.toThrow('refused');
      expect(sent).toEqual([]);
    },
  );

  it('executes no statement that was prepared before the end', async () => {
    const { tx, sent, end } = guarded();
    const statement = await tx.prepare();
    await statement.execute(['end']);
    end();
    expect(() => statement.execute(['late'])).toThrow('refused');
    statement.close();
    expect(sent).toEqual(['end']);
  });

  it.each<[string, (tx: ReturnType<typeof guarded>['tx']) => unknown]>([
    ['a value that is quoted', (tx) => tx.escapeLiteral('END')],
    ['the name of a function', (tx) => tx.func('end')],
    ['the name of a task', (tx) => tx.task('commit', async () => {})],
    ['what an unknown method takes', (tx) => tx.unheardOf('End of the meeting; commit to it')],
  ])('takes no SQL for %s', async (_, use) => {
    const { tx, read } = guarded();
    await use(tx);
    expect(read).toEqual([]);
  });

  it.each<[string, (tx: ReturnType<typeof guarded>['tx']) => unknown]>([
    ['a text', (tx) => tx.query('COMMIT')],
    ['a configuration', (tx) => tx.query({ text: 'COMMIT' } as never)],
    ['the options of mysql2', (tx) => tx.query({ sql: 'COMMIT' } as never)],
    ['a stream', (tx) => tx.query({ cursor: { text: 'COMMIT' } } as never)],
    ['another method that sends', (tx) => tx.none('COMMIT')],
    ['a part of the transaction', (tx) => tx.task('part', (part) => part.none('COMMIT'))],
    ['an unknown method that is given an end', (tx) => tx.unheardOf('SELECT 1; COMMIT WORK')],
  ])('reads %s', async (_, send) => {
    const { tx, read } = guarded();
    await send(tx);
    expect(read).toHaveLength(1);
    expect(read[0]).toMatch(/COMMIT/);
  });
});
