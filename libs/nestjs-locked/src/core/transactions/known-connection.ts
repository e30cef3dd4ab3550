/** What ORMs carry about their transactions where these are opened. */
interface MaybeKnown {
  /** TypeORM's data source. */
  readonly options?: { readonly isolationLevel?: unknown };
  /** Prisma; its default is applied where nothing was given. */
  readonly $transaction?: unknown;
  readonly _engineConfig?: { readonly transactionOptions?: { readonly timeout?: unknown } };
}

const PRISMA_TIMEOUT_MS = 5_000;

/** Options of transactions that are opened without any. */
export interface TransactionDefaults {
  readonly isolation?: string;
  readonly timeoutMs?: number;
}

/** @param connection what transactions are opened with: TypeORM's data source, Prisma's client */
export function transactionDefaults(connection: object): TransactionDefaults {
  const { options, $transaction, _engineConfig } = connection as MaybeKnown;
  const isolation = options?.isolationLevel;
  const timeout = _engineConfig?.transactionOptions?.timeout ?? PRISMA_TIMEOUT_MS;
  return {
    ...(typeof isolation === 'string' ? { isolation } : {}),
    ...(typeof $transaction === 'function' && typeof timeout === 'number'
      ? { timeoutMs: timeout }
      : {}),
  };
}
