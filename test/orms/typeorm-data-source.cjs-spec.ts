import type { Propagation } from '@nestjs-cls/transactional';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { DataSource } from 'typeorm';
import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  type Propagation as TheirPropagation,
  runInTransaction,
  StorageDriver,
} from 'typeorm-transactional';
import { describeLockContract } from './lock-contract.js';
import type { Isolation } from './orm-under-test.js';
import { describePropagation } from './propagation-suite.js';

type Level = Uppercase<Isolation>;

const openDatabase = (url: string): Promise<DataSource> =>
  new DataSource({ type: 'postgres', url, poolSize: 10 }).initialize();

describeLockContract(
  {
    name: 'TypeORM, its data source wrapped',
    open: async (url) => {
      const dataSource = lockAwareDataSource(await openDatabase(url));
      return {
        transaction: (body, isolation) =>
          isolation === undefined
            ? dataSource.transaction(body)
            : dataSource.transaction(isolation.toUpperCase() as Level, body),
        close: () => dataSource.destroy(),
      };
    },
  },
  { roundTrips: 0 },
);

describePropagation(
  {
    name: 'typeorm-transactional',
    open: async (url) => {
      initializeTransactionalContext({ storageDriver: StorageDriver.ASYNC_LOCAL_STORAGE });
      const dataSource = lockAwareDataSource(await openDatabase(url), { runInTransaction });
      addTransactionalDataSource(dataSource);
      return {
        run: (propagation: Propagation, work) =>
          runInTransaction(work, { propagation: propagation as string as TheirPropagation }),
        tx: () => dataSource,
        close: async () => {
          deleteDataSourceByName('default');
          await dataSource.destroy();
        },
      };
    },
  },
  { nested: 'transaction' },
);
