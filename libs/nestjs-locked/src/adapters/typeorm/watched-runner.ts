import type { QueryRunner } from 'typeorm';
import { isRefusedCommit } from '../../core/transactions/sql-error.js';
import type { TransactionScope } from '../../core/transactions/transaction-scope.js';

type Isolation = Parameters<QueryRunner['startTransaction']>[0];

/**
 * Follows the transactions of a query runner that is driven by hand. Savepoints go through the same methods, and are
 * passed over.
 *
 * @param open begins a scope
 */
export function watchRunner(
  runner: QueryRunner,
  open: (isolation: Isolation) => TransactionScope,
): void {
  const start = runner.startTransaction.bind(runner);
  const commit = runner.commitTransaction.bind(runner);
  const rollback = runner.rollbackTransaction.bind(runner);
  const release = runner.release.bind(runner);
  let scope: TransactionScope | undefined;
  let depth = 0;

  runner.startTransaction = async (isolation) => {
    await start(isolation);
    if (++depth > 1) return;
    scope = open(isolation);
    try {
      await scope.begin();
    } catch (error) {
      await runner.rollbackTransaction();
      throw error;
    }
  };

  runner.commitTransaction = async () => {
    if (depth !== 1) {
      await commit();
      depth = Math.max(0, depth - 1);
      return;
    }
    await scope?.beforeCommit();
    try {
      await commit();
    } catch (error) {
      // The answer is what counts; a rollback that follows finds the scope ended.
      await scope?.end(isRefusedCommit(error) ? 'rolled-back' : 'unknown');
      throw error;
    }
    depth = 0;
    await scope?.end('committed');
  };

  runner.rollbackTransaction = async () => {
    try {
      await rollback();
    } finally {
      depth = Math.max(0, depth - 1);
      if (depth === 0) await scope?.end('rolled-back');
    }
  };

  // The last resort: a connection that died has no other end.
  runner.release = async () => {
    try {
      await release();
    } finally {
      depth = 0;
      await scope?.end('rolled-back');
    }
  };
}
