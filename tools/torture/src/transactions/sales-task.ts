import type { BrokenRule } from './broken-rule.js';
import type { SaleFeature } from './sale-plan.js';

/** Long enough, even on a busy machine, for the time-outs of the database that are derived from it. */
export const LEASE_MS = 5_000;

/** What a worker is told to do. */
export interface SalesTask {
  readonly name: string;
  readonly seed: number;
  readonly redisUrl: string;
  readonly databaseUrl: string;
  readonly history: string;
  readonly callers: number;
  readonly fence: boolean;
  /** How its transactions are opened: by TypeORM, or by pg through nestjs-cls. */
  readonly opens: 'typeorm' | 'cls';
  /** After how long the driver gives up a statement, if it does. */
  readonly driverLimitMs: number | undefined;
  readonly without: readonly SaleFeature[];
  readonly broken: readonly BrokenRule[];
}
