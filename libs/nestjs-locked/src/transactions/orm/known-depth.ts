interface MaybeEntityManager {
  readonly queryRunner?: { readonly transactionDepth?: unknown };
}

/**
 * @param tx what stands for a transaction @returns how deep in savepoints its ORM says that it is; 0 if it does not say
 */
export function knownDepth(tx: object): number {
  const depth = (tx as MaybeEntityManager).queryRunner?.transactionDepth;
  return typeof depth === 'number' ? Math.max(0, depth - 1) : 0;
}
