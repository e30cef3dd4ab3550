import { LockConfigError } from '../../core/lock.errors.js';

/** Properties of the objects with which ORMs open transactions. */
interface MaybeKnown {
  /** TypeORM's data source. */
  readonly options?: { readonly isolationLevel?: unknown };
  /** Prisma; its default applies if nothing was given. */
  readonly $transaction?: unknown;
  readonly _engineConfig?: {
    readonly transactionOptions?: { readonly timeout?: unknown; readonly isolationLevel?: unknown };
  };
  /** Drizzle on SQLite. */
  readonly resultKind?: unknown;
}

const PRISMA_TIMEOUT_MS = 5_000;

/** The default options of transactions. */
export interface TransactionDefaults {
  readonly isolation?: string;
  readonly timeoutMs?: number;
}

/** @param connection the object with which transactions are opened: TypeORM's data source, Prisma's client */
export function transactionDefaults(connection: object): TransactionDefaults {
  const { options, $transaction, _engineConfig } = connection as MaybeKnown;
  const prisma = _engineConfig?.transactionOptions;
  const isolation = options?.isolationLevel ?? prisma?.isolationLevel;
  const timeout = prisma?.timeout ?? PRISMA_TIMEOUT_MS;
  return {
    ...(typeof isolation === 'string' ? { isolation } : {}),
    ...(typeof $transaction === 'function' && typeof timeout === 'number'
      ? { timeoutMs: timeout }
      : {}),
  };
}

/**
 * Refuses synchronous drivers, which commit when the function returns, not when its promise settles.
 *
 * @throws LockConfigError if transactions are opened by a synchronous driver
 */
export function assertAsynchronous(connection: object): void {
  if ((connection as MaybeKnown).resultKind !== 'sync') return;
  throw new LockConfigError(
    'lockAwareAdapter cannot guard transactions of a synchronous Drizzle driver (better-sqlite3, sql.js, bun:sqlite, expo-sqlite): they are committed before an asynchronous body has run; use an asynchronous driver such as libsql, or lock around the transaction without lockAwareAdapter, with a body that awaits nothing',
  );
}
