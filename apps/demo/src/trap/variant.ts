import type { InsideTransaction } from 'nestjs-locked';

/** A way to use a lock and a transaction together. */
export interface Variant {
  readonly nesting: 'wrong' | 'right';
  /** What a lock does if it is asked for inside a transaction; undefined if the locks do not know of transactions. */
  readonly insideTransaction: InsideTransaction | undefined;
  /** The required outcome; undefined if the outcome is only reported. */
  readonly mustBe: 'all sold' | 'all refused' | undefined;
}

export const VARIANTS: readonly Variant[] = [
  { nesting: 'wrong', insideTransaction: undefined, mustBe: undefined },
  { nesting: 'wrong', insideTransaction: 'join', mustBe: undefined },
  { nesting: 'wrong', insideTransaction: 'reject', mustBe: 'all refused' },
  { nesting: 'wrong', insideTransaction: 'restart', mustBe: 'all sold' },
  { nesting: 'right', insideTransaction: 'reject', mustBe: 'all sold' },
];

/** Two lines: how lock and transaction are nested, and what the locks do about it. */
export function headsOf({ nesting, insideTransaction }: Variant): readonly [string, string] {
  if (nesting === 'right') return ['right', 'nesting'];
  return ['wrong nesting', insideTransaction ?? 'plain adapter'];
}

export function nameOf(variant: Variant): string {
  return headsOf(variant).join(variant.nesting === 'right' ? ' ' : ', ');
}
