import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { drizzleRuns } from '../transactions/drizzle-runs.js';
import { clsOrm, openPool } from './cls-orm.js';

/** Drizzle on node-postgres, with nestjs-cls. */
export const DRIZZLE = clsOrm('Drizzle', (url) => {
  const pool = openPool(url);
  return {
    adapter: lockAwareAdapter(
      new TransactionalAdapterDrizzleOrm<NodePgDatabase>({ drizzleInstanceToken: 'drizzle' }),
    ),
    connection: drizzle(pool),
    isolated: (isolationLevel) => ({ isolationLevel }),
    runs: drizzleRuns,
    close: () => pool.end(),
  };
});
