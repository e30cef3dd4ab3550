import type { SeededRandom } from 'kit';
import type { Pieces } from './sales-history.js';

export const ISOLATIONS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const;

/**
 * Where the locks of a call are asked for:
 *
 * - outside: around the transaction, all at once or one inside the other
 * - inside: in the transaction, one after the other
 * - nested: in the transaction, one inside the other
 * - branches: in the transaction, in parallel branches, beside a branch that writes without a lock
 * - several: in the transaction, all at once
 * - fixed: around the transaction, with a lease that is not renewed
 * - join: in the transaction, waiting there, for one product
 * - unlocked: nowhere; it writes notes only
 */
export const STYLES = [
  'outside',
  'inside',
  'nested',
  'branches',
  'several',
  'fixed',
  'join',
  'unlocked',
] as const;

/** When a call lets somebody take one of its locks away. */
export const LOSSES = ['in the body', 'before the COMMIT', 'after the COMMIT'] as const;

/** What can be left out of all calls, or of what happens to them. */
export const SALE_FEATURES = ['lost-locks', 'audits', 'cut-commits', 'driver-limits'] as const;
export type SaleFeature = (typeof SALE_FEATURES)[number];

/** Each product is guarded by one of two lock services. */
export const PRODUCTS = ['plain-1', 'plain-2', 'plain-3', 'billing-1', 'billing-2', 'billing-3'];

/** The product of rows that belong to no stock. */
export const NOTE = 'note';

/** One call, as it was drawn at random. */
export interface SalePlan {
  readonly style: (typeof STYLES)[number];
  readonly isolation: (typeof ISOLATIONS)[number];
  /** The products, in the order in which their locks are asked for. */
  readonly products: readonly string[];
  /** Reads everything before it asks for a lock, and then writes what it has read, minus one. */
  readonly readsFirst: boolean;
  /** Catches the errors of the locks that it asks for, and goes on. */
  readonly swallows: boolean;
  /** Throws at the end, or in one of its branches. */
  readonly fails: boolean;
  /** Leaves work behind that nobody awaits, and that writes a row later. */
  readonly leavesWork: boolean;
  readonly notes: number;
  /** When one of its locks is taken away. */
  readonly losesLock: (typeof LOSSES)[number] | undefined;
  /** Writes an audit row in a transaction of its own: beside the first statement, or when it has failed. */
  readonly audits: 'in the body' | 'after a failure' | undefined;
  /** A statement takes longer than the driver waits for its answer. */
  readonly isSlow: boolean;
}

/** @param isLimited whether the driver gives up a slow statement */
export function drawPlan(
  random: SeededRandom,
  without: readonly SaleFeature[],
  isLimited: boolean,
): SalePlan {
  const style = random.pick(STYLES);
  const products = shuffled(random, PRODUCTS).slice(0, style === 'join' ? 1 : random.between(1, 3));
  const isInside = style !== 'outside' && style !== 'fixed' && style !== 'join';
  const does = (feature: SaleFeature): boolean => !without.includes(feature);
  const isUnlocked = style === 'unlocked';
  return {
    style,
    // At a higher level, the snapshot could be older than a lock that is waited for inside, so that is refused.
    isolation: style === 'join' ? 'READ COMMITTED' : random.pick(ISOLATIONS),
    products: isUnlocked ? [] : products,
    readsFirst: isInside && random.chance(0.4),
    swallows: isInside && style !== 'branches' && random.chance(0.1),
    fails: random.chance(isUnlocked ? 0.5 : 0.1),
    leavesWork: isInside && random.chance(0.3),
    notes: style === 'branches' ? random.between(0, 3) : isUnlocked ? random.between(1, 3) : 0,
    losesLock:
      does('lost-locks') && !isUnlocked && random.chance(0.08) ? random.pick(LOSSES) : undefined,
    audits:
      does('audits') && random.chance(isUnlocked ? 0.6 : 0.2)
        ? random.pick(['in the body', 'after a failure'])
        : undefined,
    isSlow: isLimited && random.chance(0.08),
  };
}

/** What a call must have written if it is acknowledged. */
export function piecesOf({ products, notes }: SalePlan): Pieces {
  const pieces = Object.fromEntries(products.map((product) => [product, 1]));
  return notes === 0 ? pieces : { ...pieces, [NOTE]: notes };
}

function shuffled<T>(random: SeededRandom, items: readonly T[]): T[] {
  const rest = [...items];
  return items.map(() => rest.splice(random.between(0, rest.length - 1), 1)[0] as T);
}
