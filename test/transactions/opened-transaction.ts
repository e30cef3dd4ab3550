import type { DataSource, QueryRunner } from 'typeorm';

export type Work = (runner: QueryRunner) => Promise<unknown>;

/** Opens a transaction of TypeORM in one of its ways, and commits it after the work. */
export type OpensTransaction = (dataSource: DataSource, work: Work) => Promise<unknown>;

export const withCallback: OpensTransaction = (dataSource, work) =>
  dataSource.transaction((manager) => work(manager.queryRunner as QueryRunner));

/** @param failed what the code does with the query runner after an error, before it releases it */
export function byHand(failed: Work = async () => {}): OpensTransaction {
  return async (dataSource, work) => {
    const runner = dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await work(runner);
      await runner.commitTransaction();
    } catch (error) {
      await failed(runner);
      throw error;
    } finally {
      await runner.release();
    }
  };
}
