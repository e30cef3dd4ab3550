import type { CommitProgress } from '../scope/failed-commit.js';

/** A query runner of TypeORM: it sends its COMMIT like any other statement. */
interface RunsStatements {
  query: (sql: string, ...rest: unknown[]) => Promise<unknown>;
}

/** Sees how far the COMMIT of the present transaction got, between the hooks that run before and after it. */
class CommitWatch {
  #progress: CommitProgress = 'not-sent';

  constructor(runner: RunsStatements) {
    const query = runner.query.bind(runner);
    // Not async: every statement passes here, and promises are not free.
    runner.query = (sql, ...rest) =>
      sql === 'COMMIT' ? this.#watched(() => query(sql, ...rest)) : query(sql, ...rest);
  }

  async #watched(commit: () => Promise<unknown>): Promise<unknown> {
    this.#progress = 'sent';
    const answer = await commit();
    this.#progress = 'answered';
    return answer;
  }

  get progress(): CommitProgress {
    return this.#progress;
  }

  /** Another transaction begins. */
  restart(): void {
    this.#progress = 'not-sent';
  }
}

const watches = new WeakMap<object, CommitWatch>();

/** TypeORM's names of the drivers whose query runner commits by the plain statement, and in no other way. */
const COMMITS_BY_STATEMENT: readonly unknown[] = ['postgres', 'mysql', 'mariadb'];

interface MaybeEntityManager {
  readonly connection?: { readonly options?: { readonly type?: unknown } };
  readonly queryRunner?: RunsStatements;
}

/**
 * Watches how far the COMMIT of this transaction gets, if it is one whose COMMIT can be seen. A guard that may refuse
 * statements has to wrap the query runner after this, because a refused statement was not sent.
 *
 * @param tx what stands for the transaction: TypeORM's EntityManager
 */
export function watchCommit(tx: object): void {
  const { connection, queryRunner } = tx as MaybeEntityManager;
  if (queryRunner === undefined || !COMMITS_BY_STATEMENT.includes(connection?.options?.type))
    return;
  const watch = watches.get(queryRunner);
  if (watch === undefined) watches.set(queryRunner, new CommitWatch(queryRunner));
  else watch.restart(); // a query runner can have several transactions, one after the other
}

/** @returns undefined if the transaction is not watched */
export function commitProgress(tx: object): CommitProgress | undefined {
  const { queryRunner } = tx as MaybeEntityManager;
  return queryRunner === undefined ? undefined : watches.get(queryRunner)?.progress;
}
