import postgres from 'postgres';
import { describeLockContract } from './lock-contract.js';
import { inTransaction } from './recipes/postgres-js.js';

describeLockContract(
  {
    name: 'postgres.js',
    survivesDisconnect: false,
    timesOut: false,
    open: async (url) => {
      const sql = postgres(url, { onnotice: () => {} });
      return {
        transaction: (body, isolation) =>
          inTransaction(
            sql,
            (tx) => body({ query: (text, params: string[]) => tx.unsafe(text, params) }),
            isolation === undefined ? '' : `isolation level ${isolation}`,
          ),
        close: () => sql.end({ timeout: 0 }),
      };
    },
  },
  { roundTrips: 2 },
);
