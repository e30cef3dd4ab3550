import { describe, expect, it } from '@jest/globals';
import { guardedTx } from '../../libs/nestjs-locked/src/transactions/orm/guarded-tx.js';

/** A client that notes what is sent, and a guard that refuses everything once it is closed. */
function guarded() {
  const sent: string[] = [];
  let isClosed = false;
  const client = { query: async (sql: string) => void sent.push(sql) };
  const tx = guardedTx(client, undefined, () => {
    if (isClosed) throw new Error('refused');
  }) as typeof client;
  return { tx, sent, close: () => (isClosed = true) };
}

describe('a guarded client', () => {
  it('rolls back after it has rolled back to a savepoint, which ends nothing', async () => {
    const { tx, sent, close } = guarded();
    await tx.query('ROLLBACK TO SAVEPOINT a');
    close();
    await tx.query('ROLLBACK');
    expect(sent).toEqual(['ROLLBACK TO SAVEPOINT a', 'ROLLBACK']);
  });

  it('rolls back only once: the connection may be somebody else’s then', async () => {
    const { tx, sent, close } = guarded();
    close();
    await tx.query('ROLLBACK');
    expect(() => tx.query('ROLLBACK')).toThrow('refused');
    expect(sent).toEqual(['ROLLBACK']);
  });
});
