import { isBusy } from '../machine.js';
import { type Goal, isMet, type Results, type ScenarioResult } from '../results.js';
import { inDigits, withSpread } from './format.js';
import { overviewOf } from './overview.js';

/** The page about the numbers, as Markdown. Everything in it comes from one run. */
export function documentOf(results: Results): string {
  const { version, date, machine, adapters, scenarios, violations } = results;
  const goals = scenarios.flatMap((scenario) => scenario.goals);
  const missed = goals.filter((goal) => !isMet(goal));
  const met = goals.filter(isMet);
  return `# Benchmarks

This page is written by \`npm run bench -- --save\`, from one run of version ${version} on ${date}.

## How it compares

${table(
  ['', 'holds per second', 'of the best other', 'p99 wait, ms', 'of the best other'],
  overviewOf(results),
)}

- **Callers that wait** take turns, and a message wakes the next one. Callers of one process pass the lock on without
  Redis. The other libraries poll: short pauses, as here, load Redis with commands that fail; longer ones, the default of
  most of them, spare Redis and make waits longer.
- **Without contention**, a lock that is released safely takes two round trips in every library. Ours needs more CPU,
  because it also gives out fencing numbers, keeps a queue and renews leases, even if you need none of that. With
  \`awaitRelease: false\`, a call does not wait for the second round trip; with \`lingerMs\`, a key that the same process
  takes again needs none.
- **With work under the lock**, the work limits the rate of every library, and the waits make the difference.
- **Strict order across processes** (\`localHandovers: 0\`) takes a hand-over through Redis for every hold that
  another process waits for. Choose it only if the order matters more than the rate.

## How it is measured

All locks run on one Redis and take turns in short rounds. Ratios are formed round by round, because absolute numbers
depend on the machine. Each number is the median of all rounds, followed by the range of their middle half. The raw
floor is the least that a lock on Redis can cost.

- Machine: ${machine.cores} cores (${machine.processor}), ${machine.memoryGb} GB, shared by Redis and all clients.
  With more busy processes than cores, CPU time is the limit. With more cores, or with Redis on another machine, round
  trips count for more and CPU for less.
- Load of the machine in the minute before: ${inDigits(machine.load)}.${
    isBusy(machine)
      ? ' **Other programs were busy**, so these numbers are rough, and unfavourable to whatever needs more CPU.'
      : ''
  }
- Node ${machine.node}, Redis ${machine.redis}, and ioredis ${machine.ioredis} for every library.
- Where several callers want one key, their holds are compared across all processes. Two must never be inside at once: ${
    violations.length === 0 ? 'they never were.' : `**they were**: ${violations.join('; ')}.`
  }

## One key, more and more processes

![Holds per second against 1, 2, 4 and 8 processes](benchmarks/throughput.svg)

![p99 wait against 1, 2, 4 and 8 processes](benchmarks/waits.svg)

## What was measured

${scenarios.map(section).join('\n\n')}

## Settings

Every lock has a lease of 30 s. The floor and the peers have one connection per process, with the defaults of ioredis;
ours opens its usual two. Where a pause between two tries is shorter than the default, the table says so.

${table(
  ['', 'settings'],
  adapters.map(({ name, settings }) => [name, settings]),
)}

## Goals, and what was missed

${missed.length === 0 ? 'Every goal was met in this run.' : `${missed.length} of ${goals.length} goals were missed in this run.`}

${table(
  ['', 'measured', 'goal', ''],
  [...missed, ...met].map((goal) => [
    goal.text,
    withSpread(goal.value),
    bound(goal),
    isMet(goal) ? 'met' : 'not met',
  ]),
)}
`;
}

function section({ title, what, columns, rows }: ScenarioResult): string {
  const head = [
    '',
    ...columns.map(({ title, unit }) => (unit === '' ? title : `${title}, ${unit}`)),
  ];
  const lines = rows.map(({ name, values }) => [
    name,
    ...columns.map(({ id }) => {
      const value = values[id];
      return value === undefined ? '' : withSpread(value);
    }),
  ]);
  return `### ${title}\n\n${what}\n\n${table(head, lines)}`;
}

function bound({ better, aim }: Goal): string {
  return `${better === 'higher' ? 'at least' : 'at most'} ${inDigits(aim)}`;
}

function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [row(head), row(head.map(() => '---')), ...lines.map(row)].join('\n');
}
