import { markdownTable } from 'kit';
import { isBusy } from '../machine.js';
import { type Goal, isMet, type Results, type ScenarioResult } from '../results.js';
import { inDigits, withSpread } from './format.js';
import { againstBare, overviewOf } from './overview.js';
import { cellsOf, headOf } from './table.js';

/** The page for users, as Markdown: when which lock is faster. Everything in it comes from one run. */
export function documentOf(results: Results): string {
  const { version, date, machine, scenarios, violations } = results;
  const goals = scenarios.flatMap((scenario) => scenario.goals);
  const missed = goals.filter((goal) => !isMet(goal));
  return `# Benchmarks

Fastest when callers wait for the same key; slower than others for a lone caller. \`localHandovers: 0\` is slower under
contention, too, but keeps strict order.

**Against bare \`SET NX PX\` and a checked delete**, the least that a lock on Redis can cost, without queue, fencing
numbers and renewal, it reaches so many times the rate:

${markdownTable(['', 'rate'], againstBare(results))}

## How it compares

${markdownTable(['', 'holds per second', 'best other', 'p99 wait, ms', 'best other'], overviewOf(results))}

- **Callers wait for the same key:** use the defaults. Waiters queue and are woken by messages, and callers of one
  process pass the lock on without Redis. The other libraries poll.
- **Nobody else wants the key:** every library needs two round trips, and ours more CPU, for fencing numbers, the queue
  and renewal. \`awaitRelease: false\` does not wait for the second one; \`lingerMs\` needs none if the same process takes
  the key again.
- **Work under the lock** limits the rate of every library; waits differ.
- **Order across processes matters more than the rate:** \`localHandovers: 0\`, one hand-over through Redis per hold.

In the pictures, a point is the median of several rounds, and the bar through it covers the middle half of them.

![Holds per second against 1, 2, 4 and 8 processes](benchmarks/throughput.svg)

![p99 wait against 1, 2, 4 and 8 processes](benchmarks/waits.svg)

## How it is measured

One run of \`npm run bench -- --save\` with version ${version} on ${date}: [all figures and
settings](benchmarks/results.md).

- Machine: ${machine.cores} cores (${machine.processor}), ${machine.memoryGb} GB, shared by Redis and all clients.
  With more cores or a remote Redis, round trips count for more and CPU for less.
- Load in the minute before: ${inDigits(machine.load)}.${
    isBusy(machine)
      ? ' **Other programs were busy**: figures are rough, and worse for locks that need more CPU.'
      : ''
  }
- Node ${machine.node}, Redis ${machine.redis}, and ioredis ${machine.ioredis} for every library.
- Two callers were ${violations.length === 0 ? 'never inside at once.' : `**inside at once**: ${violations.join('; ')}.`}

## Goals

Each goal is a ratio to the best other library or to the raw floor, the least that a lock on Redis can cost. This run met
${goals.length - missed.length} of ${goals.length} goals.${
    missed.length === 0
      ? ''
      : ` The others:\n\n${markdownTable(['missed', 'goal', 'measured'], missed.map(goalRow))}`
  }
`;
}

function goalRow({ text, better, aim, value }: Goal): string[] {
  return [
    text,
    `${better === 'higher' ? 'at least' : 'at most'} ${inDigits(aim)}`,
    withSpread(value),
  ];
}

/** Every figure of the same run, and the settings of each library, as Markdown. */
export function figuresOf({ version, date, adapters, scenarios }: Results): string {
  return `# Results of the benchmarks

From the run of version ${version} on ${date} that [the benchmarks](../benchmarks.md) describe. Figures are medians of
short alternating rounds, followed by the interquartile range. The raw floor is the least that a lock on Redis can cost.

## What was measured

${scenarios.map(section).join('\n\n')}

## Settings

Leases last 30 s. Others have one connection per process, ours two, with the defaults of ioredis.

${markdownTable(
  ['', 'settings'],
  adapters.map(({ name, settings }) => [name, settings]),
)}
`;
}

function section({ title, what, columns, rows }: ScenarioResult): string {
  const table = markdownTable(
    headOf(columns),
    rows.map((row) => cellsOf(columns, row)),
  );
  return `### ${title}\n\n${what}\n\n${table}`;
}
