import { sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Runs } from './stock.js';

/** Runs statements with `$1` placeholders in a transaction of Drizzle. */
export function drizzleRuns(tx: NodePgDatabase): Runs {
  return {
    query: async (text: string, params: (string | number)[]) => {
      const parts = text.split(/\$\d/);
      const values = params.map((param) => sql`${param}`);
      const chunks = parts.flatMap((part, at) => [sql.raw(part), ...values.slice(at, at + 1)]);
      return (await tx.execute(sql.join(chunks))).rows;
    },
  };
}
