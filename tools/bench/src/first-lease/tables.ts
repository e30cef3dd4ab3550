/** The tables of docs/first-lease.md. */
import { markdownTable } from 'kit';
import { CONDITIONS, WORK } from './conditions.js';
import type { Outcome } from './evaluate.js';
import { RULES } from './rules.js';

/** One table for each of the conditions, with its name. */
export function firstLeaseTables(): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(CONDITIONS).map(([condition, stalls]) => {
      const rows = Object.entries(RULES).map(([name, rule]) => [
        name,
        ...Object.values(WORK).map((holds) => shown(rule(holds, stalls))),
      ]);
      return [condition, markdownTable(['lease', ...Object.keys(WORK)], rows)];
    }),
  );
}

/** `26 s · 0.03` */
function shown({ freeAfterS, lostPerMillion }: Outcome): string {
  return `${freeAfterS.toPrecision(2)} s · ${rounded(lostPerMillion)}`;
}

function rounded(perMillion: number): string {
  if (perMillion < 0.0005) return '0';
  return perMillion < 100 ? String(Number(perMillion.toPrecision(1))) : perMillion.toFixed(0);
}
