import { watchCommit } from './commit-watch.js';
import { guardRunner, isGuardableRunner } from './guarded-runner.js';

/** Asked before a statement is sent. @param sql its text, where it can be seen @throws if it may not be sent */
export type AssertTakes = (sql?: string) => void;

/** What the transactions of the known ORMs send their statements through. */
interface MaybeKnown {
  /** TypeORM. */
  readonly queryRunner?: unknown;
  /** Drizzle. */
  readonly session?: { client?: object };
  /** Kysely. */
  readonly withPlugin?: (plugin: object) => object;
  readonly getExecutor?: unknown;
  /** node-postgres, mysql2, pg-promise. */
  readonly query?: unknown;
  /** postgres.js. */
  readonly unsafe?: unknown;
}

/**
 * Lets a transaction ask before each of its statements, if its ORM can be recognised by its shape: code may go on
 * working with a transaction that has been rolled back, whose connection may be somebody else's by then. Knex, Prisma,
 * Sequelize and MikroORM refuse such statements on their own.
 *
 * @param connection what the transaction was opened on; undefined if that is not known
 * @returns what is to be handed out in place of `tx`
 */
export function guardedTx(tx: object, connection: unknown, assertTakes: AssertTakes): object {
  const { queryRunner, session, withPlugin, getExecutor, query, unsafe } = tx as MaybeKnown;
  if (isGuardableRunner(queryRunner)) {
    watchCommit(tx);
    guardRunner(queryRunner, assertTakes);
    return tx;
  }
  if (typeof session?.client === 'object' || typeof session?.client === 'function') {
    const isShared =
      connection === undefined
        ? !isForOneUse(session.client)
        : (connection as MaybeKnown).session === session;
    if (!isShared) session.client = guardedClient(session.client, assertTakes);
    return tx;
  }
  if (typeof withPlugin === 'function' && typeof getExecutor === 'function') {
    return guardedKysely(withPlugin.call(tx, askingPlugin(assertTakes)), assertTakes);
  }
  if (typeof query === 'function' || typeof unsafe === 'function') {
    return guardedClient(tx, assertTakes);
  }
  return tx;
}

/**
 * A client from a pool, or a transaction of postgres.js. A database on a single connection has no session of its own
 * for a transaction.
 */
function isForOneUse(client: object): boolean {
  return typeof client === 'function' || 'release' in client;
}

/** Kysely lets plugins see every query before it is compiled. */
function askingPlugin(assertTakes: AssertTakes): object {
  return {
    transformQuery: ({ node }: { node: unknown }): unknown => {
      assertTakes();
      return node;
    },
    transformResult: async ({ result }: { result: unknown }): Promise<unknown> => result,
  };
}

/** A query that was compiled before is executed without the plugins. */
function guardedKysely(tx: { executeQuery?: unknown }, assertTakes: AssertTakes): object {
  const executeQuery = tx.executeQuery as (...args: unknown[]) => Promise<unknown>;
  tx.executeQuery = async (...args: unknown[]) => {
    assertTakes();
    return executeQuery.apply(tx, args);
  };
  return tx;
}

/** The methods of a client that have nothing to do with the transaction. */
const NO_STATEMENTS: readonly unknown[] = [
  ...['release', 'end', 'destroy', 'on', 'once', 'off', 'addListener', 'removeListener', 'emit'],
  ...['listenerCount', 'listeners', 'removeAllListeners', 'setMaxListeners', 'getMaxListeners'],
];

/** Of the whole transaction, or to a savepoint: code that has begun either has to be able to end it. */
const ROLLBACK = /^\s*ROLLBACK\b[^;]*;?\s*$/i;

function guardedClient(client: object, assertTakes: AssertTakes): object {
  let isRolledBack = false;
  const ask = (statement: unknown): void => {
    const sql = textOf(statement);
    if (sql === undefined || isRolledBack || !ROLLBACK.test(sql)) return assertTakes(sql);
    isRolledBack = !/\bTO\b/i.test(sql);
  };
  return new Proxy(client, {
    apply: (target, self, args) => {
      ask(args[0]);
      return Reflect.apply(target as () => unknown, self, args) as unknown;
    },
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (!NO_STATEMENTS.includes(name)) ask(args[0]);
        return Reflect.apply(value as () => unknown, target, args) as unknown;
      };
    },
  });
}

/** A text, a template, or an object that has it: `{ text }` of node-postgres, `{ sql }` of mysql2. */
function textOf(statement: unknown): string | undefined {
  if (typeof statement === 'string') return statement;
  if (Array.isArray(statement)) return textOf(statement[0]);
  const { text, sql } = (statement ?? {}) as { readonly text?: unknown; readonly sql?: unknown };
  return [text, sql].find((one): one is string => typeof one === 'string');
}
