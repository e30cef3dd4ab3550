/** What the calculation gives; docs/growth.md shows the first table. */
import { markdownTable } from 'kit';
import { keyShares, type KeyUse } from './key-shares.js';
import { busiestCore, type Costs, type Load, mastersNeeded } from './masters-needed.js';

/** What is assumed wherever nothing else is said. */
export const ASSUMED = { keys: 1_000_000, replicas: 1, headroom: 0.4, locksPerProcess: 500 };

/** What the fencing number of a lock with a key of 36 bytes takes (docs/operations.md), and for how long it is kept. */
const FENCE_BYTES = 200;
const FENCE_KEPT_S = 600;

const RATES = [10_000, 30_000, 100_000, 300_000, 1_000_000];

/** How many locks another process waits for, of those that the servers see, while all keys are alike. */
const CONTENTION = [
  { name: 'nobody waits', contended: 0 },
  { name: '1 % are waited for', contended: 0.01 },
  { name: '10 % are waited for', contended: 0.1 },
];
/** How the keys are asked for, from the best to the worst, while nobody waits. */
const SKEW = [
  { name: 'skew 0.8', skew: 0.8 },
  { name: 'skew 1', skew: 1 },
  { name: 'skew 1, hot keys passed on locally', skew: 1, hotKeys: 1_000, holdsPerLease: 32 },
];

export function growthTables(costs: Costs): string {
  const { keys, replicas, headroom, locksPerProcess } = ASSUMED;
  const columns = [...CONTENTION, ...SKEW].map((column) => {
    const { name, contended = 0, ...use } = { skew: 0, contended: undefined, ...column };
    const shares = keyShares({ keys, ...use });
    const at = (rate: number): number | undefined =>
      mastersNeeded({ rate, contended, replicas, headroom }, shares, costs);
    return { name, at };
  });
  const masters = RATES.map((rate) => [count(rate), ...columns.map(({ at }) => count(at(rate)))]);
  const connections = RATES.map((rate) => {
    const needed = columns[1]?.at(rate) ?? NaN;
    const processes = Math.ceil(rate / locksPerProcess);
    const memoryGb = Math.round((rate / needed) * FENCE_KEPT_S * FENCE_BYTES * 1e-8) / 10;
    const servers = needed * (1 + replicas);
    return [rate, needed, servers, processes, 2 * needed, 2 * processes, memoryGb].map(count);
  });
  return [
    markdownTable(['locks per second', ...columns.map(({ name }) => name)], masters),
    markdownTable(
      [
        'locks per second',
        'masters',
        'servers',
        'processes',
        'connections of a process',
        'connections of a master',
        'memory of a master, GB',
      ],
      connections,
    ),
  ].join('\n\n');
}

export function answerFor(load: Load & KeyUse, costs: Costs): string {
  const shares = keyShares(load);
  const masters = mastersNeeded(load, shares, costs);
  const perSecond = load.rate * shares.hottestKey;
  const hottest = `The hottest key is taken ${count(Math.round(perSecond))} times a second, so its work may last ${(1_000 / perSecond).toPrecision(2)} ms on average.`;
  if (masters === undefined) return `No number of masters is enough. ${hottest}`;
  const core = Math.round(100 * busiestCore(load, shares, costs, masters));
  const which = masters === 1 ? 'One server' : `${masters} masters`;
  const answer = `${which}; the busiest one uses ${core} % of a core.`;
  return perSecond < 1 ? answer : `${answer} ${hottest}`;
}

function count(number: number | undefined): string {
  return number === undefined ? 'none is enough' : number.toLocaleString('en-US');
}
