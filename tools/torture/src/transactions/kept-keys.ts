import { coveredMs, type Interval } from '../checker/intervals.js';
import type { Sale } from './book-checker.js';
import { NOTE } from './sale-plan.js';
import { processOf, type SaleEntry } from './sales-history.js';
import { LEASE_MS } from './sales-task.js';

/** A key that was kept for less than this share of a wait is no reason to have waited in vain. */
const KEPT_SHARE = 0.25;

interface Kept extends Interval {
  readonly sale: Sale;
}

/**
 * Whether a call that has waited for its locks in vain could not get them: one of its keys was kept by a lease that
 * nobody gives back, of a call whose process was killed or stopped, or whose COMMIT was not answered; or a call that
 * had one of its keys waited for such a key meanwhile.
 */
export function isKeptFrom(
  history: readonly SaleEntry[],
  sales: ReadonlyMap<string, Sale>,
): (sale: Sale) => boolean {
  const all = [...sales.values()];
  const kept = keptIn(history, sales);
  return (sale) => {
    const from = sale.asked.at;
    const until = sale.end?.at ?? from;
    const beside = all.filter(
      (other) =>
        other.asked.at < until && (other.end?.at ?? Infinity) > from && sharesOne(other, sale),
    );
    const wanted = new Set([sale, ...beside].flatMap(productsOf));
    const concerned = kept.filter((one) => productsOf(one.sale).some((name) => wanted.has(name)));
    const keptMs = coveredMs({ from, until }, concerned);
    return until > from && keptMs >= (until - from) * KEPT_SHARE;
  };
}

function keptIn(history: readonly SaleEntry[], sales: ReadonlyMap<string, Sale>): Kept[] {
  const kept: Kept[] = [];
  const lastSeen = new Map<string, number>();
  for (const entry of history) {
    const { at } = entry;
    lastSeen.set('process' in entry ? entry.process : processOf(entry), at);
    if (entry.kind === 'stalled') {
      for (const sale of sales.values()) {
        const isOpen = sale.asked.at <= at && (sale.end?.at ?? Infinity) >= at;
        const isOwn = processOf(sale.asked) === entry.process;
        if (isOpen && isOwn) kept.push({ sale, from: entry.since, until: at });
      }
    }
    const sale = 'call' in entry ? sales.get(entry.call) : undefined;
    if (sale === undefined) continue;
    if (entry.kind === 'committing') kept.push({ sale, from: at - entry.ms, until: at });
    if (entry.kind === 'unknown') kept.push({ sale, from: at, until: at + LEASE_MS });
  }
  for (const sale of sales.values()) {
    const from = lastSeen.get(processOf(sale.asked)) as number;
    if (sale.end === undefined) kept.push({ sale, from, until: from + LEASE_MS });
  }
  return kept;
}

function sharesOne(one: Sale, other: Sale): boolean {
  const products = productsOf(other);
  return productsOf(one).some((name) => products.includes(name));
}

function productsOf({ asked }: Sale): string[] {
  return Object.keys(asked.pieces).filter((name) => name !== NOTE);
}
