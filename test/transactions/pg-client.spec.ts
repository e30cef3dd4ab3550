import { describe, expect, it } from '@jest/globals';
import {
  knownPgClient,
  stateOfClient,
} from '../../libs/nestjs-locked/src/transactions/orm/pg-client.js';

const client = (status: string | null, more: object = {}) => ({
  readyForQuery: true,
  _queryable: true,
  status,
  getTransactionStatus(): unknown {
    return this.status;
  },
  ...more,
});

describe('a client of node-postgres', () => {
  it.each([
    ['in a transaction', 'open', client('T')],
    ['in one that was aborted', 'failed', client('E')],
    ['in none', 'none', client('I')],
    ['that was told nothing yet', undefined, client(null)],
    ['that waits for an answer', undefined, client('T', { readyForQuery: false })],
    ['whose connection is gone', undefined, client('T', { _queryable: false })],
    ['of a version that tells less', undefined, client('T', { _queryable: undefined })],
  ])('%s: %s', (_, status, known) => {
    expect(stateOfClient(() => known).transactionStatus).toBe(status);
  });

  it('that is not there is known to be in none', () => {
    expect(stateOfClient(() => undefined).transactionStatus).toBeUndefined();
  });

  it.each([
    ['itself', (pg: object) => pg],
    ['TypeORM', (pg: object) => ({ queryRunner: { databaseConnection: pg } })],
    ['Drizzle', (pg: object) => ({ session: { client: pg } })],
    ['Sequelize', (pg: object) => ({ connection: pg })],
  ])('is found in the transaction of %s', (_, transactionOf) => {
    const pg = client('T');
    expect(knownPgClient(transactionOf(pg))).toBe(pg);
  });

  it.each([{}, { connection: {} }, { readyForQuery: true }, { getTransactionStatus: () => 'T' }])(
    'is not taken for something else: %j',
    (tx) => {
      expect(knownPgClient(tx)).toBeUndefined();
    },
  );
});
