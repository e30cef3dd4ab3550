import type { EntityManager } from '@mikro-orm/postgresql';
import { lockAwareTransactions } from 'nestjs-locked/transactions';

const run = lockAwareTransactions<EntityManager>({
  dialect: 'postgres',
  query: (em, sql, params) => em.execute(sql.replace(/\$\d+/g, '?'), params),
  survivesDisconnect: false,
});

export function inTransaction<R>(
  em: EntityManager,
  work: (em: EntityManager) => Promise<R>,
  options: Parameters<EntityManager['transactional']>[1] = {},
): Promise<R> {
  return run<R>((wrap) =>
    // A fork has read nothing yet, in no run.
    em.fork().transactional(
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
