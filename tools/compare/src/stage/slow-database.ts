import type { TransactionalAdapter, TransactionalAdapterOptions } from '@nestjs-cls/transactional';
import { setTimeout as sleep } from 'node:timers/promises';

const COMMIT_MS = 30;

/** One open transaction. What it writes is seen by others after its COMMIT, as in a real database. */
export interface Sale {
  read(): Promise<number>;
  write(quantity: number): void;
}

/** One number, and transactions whose COMMIT takes a moment. */
export class SlowDatabase {
  quantity = 0;

  async transaction<T>(work: (tx: Sale) => Promise<T>): Promise<T> {
    let written: number | undefined;
    const result = await work({
      read: async () => {
        await sleep(2);
        return written ?? this.quantity;
      },
      write: (quantity) => (written = quantity),
    });
    await sleep(COMMIT_MS);
    if (written !== undefined) this.quantity = written;
    return result;
  }
}

/** It in the place of an ORM. */
export class SlowDatabaseAdapter implements TransactionalAdapter<SlowDatabase, Sale, object> {
  constructor(readonly connection: SlowDatabase) {}

  optionsFactory = (database: SlowDatabase): TransactionalAdapterOptions<Sale, object> => ({
    wrapWithTransaction: (_options, work, setTx) =>
      database.transaction(async (tx) => {
        setTx(tx);
        return (await work()) as unknown;
      }),
    getFallbackInstance: () => {
      throw new Error('There is no transaction');
    },
  });
}
