import knexOf, { type Knex } from 'knex';
import { lockAware } from 'nestjs-locked/nestjs-cls';
import { type Body, clsOrm, POOL_SIZE } from './cls-orm.js';
import { describeLockContract } from './lock-contract.js';
import { describePropagation } from './propagation-suite.js';

// Its adapter for nestjs-cls was not to be had where this was written; this one does what that is documented to do.
const KNEX = clsOrm('Knex', (url) => {
  const silent = (): void => {};
  const connection = knexOf({
    client: 'pg',
    connection: url,
    pool: { max: POOL_SIZE },
    log: { warn: silent, error: silent, debug: silent, deprecate: silent },
  });
  const opened =
    (options: Knex.TransactionConfig, body: Body, setTx: (tx: Knex) => void) =>
    (knex: Knex): Promise<unknown> =>
      knex.transaction((tx) => {
        setTx(tx);
        return body();
      }, options);
  const optionsFactory = (knex: Knex) => ({
    wrapWithTransaction: (
      options: Knex.TransactionConfig,
      body: Body,
      setTx: (tx?: Knex) => void,
    ) => opened(options, body, setTx)(knex),
    wrapWithNestedTransaction: (
      options: Knex.TransactionConfig,
      body: Body,
      setTx: (tx?: Knex) => void,
      tx: Knex,
    ) => opened(options, body, setTx)(tx),
    getFallbackInstance: () => knex,
  });
  return {
    adapter: lockAware({ connection, optionsFactory }),
    isolated: (isolationLevel) => ({ isolationLevel }),
    runs: (tx: Knex) => ({
      query: async (text, params: (string | number)[]) =>
        (await tx.raw<{ rows: unknown[] }>(text.replace(/\$\d/g, '?'), params)).rows,
    }),
    close: () => connection.destroy(),
  };
});

describeLockContract(KNEX, { roundTrips: 0 });
describePropagation(KNEX);
