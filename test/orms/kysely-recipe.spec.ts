import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { transactionsOf } from '../transactions/recipes/kysely.js';
import { describeLockContract } from './lock-contract.js';

describeLockContract(
  {
    name: 'Kysely by its recipe',
    open: async (url) => {
      const pool = new pg.Pool({ connectionString: url });
      pool.on('error', () => {});
      const database = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
      const transaction = transactionsOf(database, pool);
      return {
        transaction: (body, isolation) =>
          transaction(
            (tx) =>
              body({
                query: async (sql, params: unknown[]) =>
                  (await tx.executeQuery(CompiledQuery.raw(sql, params))).rows,
              }),
            isolation,
          ),
        close: () => database.destroy(),
      };
    },
  },
  { roundTrips: 0 },
);
