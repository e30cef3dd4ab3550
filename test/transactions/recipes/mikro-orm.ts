import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { lockAwareTransactions } from 'nestjs-locked/transactions';

export async function transactionsOf(orm: MikroORM) {
  const run = lockAwareTransactions<EntityManager>({
    dialect: 'postgres',
    query: (em, sql, params) => em.execute(sql.replace(/\$\d+/g, '?'), params),
    pool: await orm.em.getConnection().getNativeClient(),
    survivesDisconnect: false,
  });
  return <R>(
    work: (em: EntityManager) => Promise<R>,
    options: Parameters<EntityManager['transactional']>[1] = {},
  ): Promise<R> =>
    run<R>((wrap) =>
      // Each run has a fork of its own, which has no entities of an earlier run.
      orm.em.fork().transactional(
        (tx) =>
          wrap(tx, async () => {
            const result = await work(tx);
            await tx.flush(); // before the gate, not after it
            return result;
          }),
        options,
      ),
    );
}
