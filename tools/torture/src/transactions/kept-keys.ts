import { NOTE } from './sale-plan.js';
import type { Pieces, SaleEntry } from './sales-history.js';
import { LEASE_MS } from './sales-task.js';

/** A key that was kept for less than this share of a wait is no reason to have waited in vain. */
const KEPT_SHARE = 0.25;

interface Kept {
  readonly products: readonly string[];
  readonly from: number;
  readonly until: number;
}

/**
 * Whether a call that has waited for its locks in vain could not get them: one of its keys was kept by a lease that
 * nobody gives back, of a call whose process was killed or stopped, or whose COMMIT was not answered; or a call that
 * had one of its keys waited for such a key meanwhile.
 */
export function isKeptFrom(history: readonly SaleEntry[]): (call: string) => boolean {
  const asked = new Map<string, { readonly at: number; readonly products: readonly string[] }>();
  const ended = new Map<string, number>();
  const lastSeen = new Map<string, number>();
  const kept: Kept[] = [];
  const keep = (call: string, from: number, until = from + LEASE_MS): void => {
    const { products = [] } = asked.get(call) ?? {};
    kept.push({ products, from, until });
  };
  for (const { at, ...entry } of history) {
    if (at === undefined) continue;
    lastSeen.set(processOf(entry.call), at);
    if (entry.kind === 'stood still') {
      const open = [...asked.keys()].filter((call) => !ended.has(call));
      const own = open.filter((call) => call.startsWith(entry.call));
      for (const call of own) keep(call, at - entry.ms, at);
    }
    if (entry.kind === 'asked') asked.set(entry.call, { at, products: productsOf(entry.pieces) });
    if (entry.kind === 'committing') keep(entry.call, at - entry.ms, at);
    if (entry.kind === 'unknown') keep(entry.call, at);
    if (['acknowledged', 'refused', 'unknown'].includes(entry.kind)) ended.set(entry.call, at);
  }
  for (const call of asked.keys()) {
    if (!ended.has(call)) keep(call, lastSeen.get(processOf(call)) as number);
  }
  return (call) => {
    const { at: from = 0, products = [] } = asked.get(call) ?? {};
    const until = ended.get(call) ?? from;
    const wanted = new Set(products);
    for (const [other, { at, products: its }] of asked) {
      const isBeside = at < until && (ended.get(other) ?? Infinity) > from;
      if (isBeside && sharesOne(its, products)) for (const name of its) wanted.add(name);
    }
    const concerned = kept.filter((one) => sharesOne(one.products, [...wanted]));
    return until > from && keptMs(concerned, from, until) >= (until - from) * KEPT_SHARE;
  };
}

function sharesOne(some: readonly string[], others: readonly string[]): boolean {
  return some.some((name) => others.includes(name));
}

/** How much of the time is covered by at least one of them. */
function keptMs(kept: readonly Kept[], from: number, until: number): number {
  let ms = 0;
  let covered = from;
  for (const one of [...kept].sort((a, b) => a.from - b.from)) {
    const begin = Math.max(one.from, covered);
    const end = Math.min(one.until, until);
    if (end <= begin) continue;
    ms += end - begin;
    covered = end;
  }
  return ms;
}

function productsOf(pieces: Pieces): string[] {
  return Object.keys(pieces).filter((name) => name !== NOTE);
}

function processOf(call: string): string {
  return call.slice(0, call.indexOf('/'));
}
