/** What the calculation gives; docs/growth.md shows the first table. */
import { keyShares } from './key-shares.mjs';
import { busiestCore, mastersNeeded } from './masters-needed.mjs';

/** What is assumed wherever nothing else is said. */
export const ASSUMED = { keys: 1_000_000, replicas: 1, headroom: 0.4, locksPerProcess: 500 };

/** What the fencing number of a lock with a key of 36 bytes takes (docs/operations.md), and for how long it is kept. */
const FENCE_BYTES = 200;
const FENCE_KEPT_S = 600;

const RATES = [10_000, 30_000, 100_000, 300_000, 1_000_000];

/** How the keys are asked for, from the best to the worst. */
const KEYS = [
  { name: 'all keys alike', skew: 0 },
  { name: 'skew 0.8', skew: 0.8 },
  { name: 'skew 1', skew: 1 },
  { name: 'skew 1, hot keys passed on locally', skew: 1, hotKeys: 1_000, holdsPerLease: 32 },
];

/** Of the locks that the servers see, how many another process waits for. */
const CONTENTION = [0, 0.01, 0.1];

/** @param {import('./masters-needed.mjs').Costs} costs */
export function growthTables(costs) {
  const { keys, replicas, headroom } = ASSUMED;
  const shares = KEYS.map((how) => keyShares({ keys, ...how }));
  const mastersAt = (rate, contended, which) =>
    mastersNeeded({ rate, contended, replicas, headroom }, shares[which], costs);

  const masters = RATES.map((rate) => [
    count(rate),
    ...CONTENTION.map((contended) => numberOf(mastersAt(rate, contended, 0))),
    ...KEYS.slice(1).map((_, n) => numberOf(mastersAt(rate, 0, n + 1))),
  ]);
  const connections = RATES.map((rate) => {
    const needed = mastersAt(rate, 0.01, 0);
    const processes = Math.ceil(rate / ASSUMED.locksPerProcess);
    return [
      rate,
      needed,
      needed === 1 ? 1 + replicas : needed * (1 + replicas),
      processes,
      2 * needed,
      2 * processes,
      Math.round((rate / needed) * FENCE_KEPT_S * FENCE_BYTES * 1e-8) / 10,
    ];
  });
  return [
    table(
      [
        'locks per second',
        ...CONTENTION.map((share) =>
          share === 0 ? 'nobody waits' : `${share * 100} % are waited for`,
        ),
        ...KEYS.slice(1).map(({ name }) => name),
      ],
      masters,
    ),
    table(
      [
        'locks per second',
        'masters',
        'servers',
        'processes',
        'connections of a process',
        'connections of a master',
        'memory of a master, GB',
      ],
      connections.map((row) => row.map(count)),
    ),
  ].join('\n\n');
}

/** @param {import('./masters-needed.mjs').Load & { keys: number, skew: number }} load */
export function answerFor(load, costs) {
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

function numberOf(masters) {
  return masters === undefined ? 'none is enough' : count(masters);
}

function count(number) {
  return number.toLocaleString('en-US');
}

function table(heads, rows) {
  return [heads, heads.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}
