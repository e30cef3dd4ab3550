import type { SaleFeature } from './sale-plan.js';

/**
 * What a process does wrong on purpose, to check the checker, which must notice each of these rules:
 *
 * - unknown: the locks do not know the transactions, and are released before the commit
 * - inside: a lock that is asked for inside is taken there, and what was read before that is not read again
 * - branches: the transaction does not know its branches, which go on after it
 * - answer: a call that was rolled back is acknowledged
 * - order: some processes ask two lock services in one order, and others in the other order
 * - audits: code that asks for no lock runs under one all the same
 */
export const BROKEN_RULES = ['unknown', 'inside', 'branches', 'answer', 'order', 'audits'] as const;

export type BrokenRule = (typeof BROKEN_RULES)[number];

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
