import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import pgPromise from 'pg-promise';
import { type Body, clsOrm, POOL_SIZE } from './cls-orm.js';
import { describeLockContract } from './lock-contract.js';
import { describePropagation } from './propagation-suite.js';

// Stands in for the nestjs-cls adapter of pg-promise, which was not available, and does what its documentation says.
const pgp = pgPromise({ noWarnings: true });

const PG_PROMISE = clsOrm('pg-promise', (url) => {
  const { TransactionMode, isolationLevel } = pgp.txMode;
  type Tx = pgPromise.ITask<object>;
  type Db = pgPromise.IDatabase<object>;
  interface Options {
    readonly mode?: InstanceType<typeof TransactionMode>;
  }
  const connection = pgp({ connectionString: url, max: POOL_SIZE });
  connection.$pool.on('error', () => {}); // the database is dropped while a connection is being closed
  const opened = (db: Db | Tx, options: Options, body: Body, setTx: (tx: Tx) => void) =>
    db.tx(options, (tx) => {
      setTx(tx);
      return body() as Promise<unknown>;
    });
  const optionsFactory = (db: Db) => ({
    wrapWithTransaction: (options: Options, body: Body, setTx: (tx?: Tx) => void) =>
      opened(db, options, body, setTx),
    wrapWithNestedTransaction: (
      options: Options,
      body: Body,
      setTx: (tx?: Tx) => void,
      outer: Tx,
    ) => opened(outer, options, body, setTx),
    getFallbackInstance: () => db,
  });
  const levels = {
    'read committed': isolationLevel.readCommitted,
    'repeatable read': isolationLevel.repeatableRead,
    serializable: isolationLevel.serializable,
  };
  return {
    adapter: lockAwareAdapter({ connection, optionsFactory }),
    isolated: (isolation) => ({ mode: new TransactionMode({ tiLevel: levels[isolation] }) }),
    runs: (tx: Tx) => ({ query: (text, params) => tx.query(text, params) }),
    close: () => connection.$pool.end(),
  };
});

describeLockContract({ ...PG_PROMISE, Client: pgp.pg.Client }, { roundTrips: 0 });
describePropagation(PG_PROMISE);
