import { isBusy } from '../machine.js';
import { type Goal, isMet, type Results, type ScenarioResult } from '../results.js';
import { inDigits, withSpread } from './format.js';

/** The page about the numbers, as Markdown. Everything in it comes from one run. */
export function documentOf(results: Results): string {
  const { version, date, machine, adapters, scenarios, violations } = results;
  const goals = scenarios.flatMap((scenario) => scenario.goals);
  const missed = goals.filter((goal) => !isMet(goal));
  return `# Benchmarks

This page is written by \`npm run bench -- --save\`, from one run of version ${version} on ${date}.

Absolute numbers say more about a machine than about a library. So everything was measured side by side on one Redis:
the least that a lock on Redis can cost (the raw floor), other libraries, and this one. They take turns in short rounds,
and ratios are formed round by round. Each number is the median of all rounds, followed by the range in which the
middle half of them lies.

- Machine: ${machine.cores} cores (${machine.processor}), ${machine.memoryGb} GB. Redis and all clients share them.
  Therefore everything with more busy processes than cores is bound by CPU: Redis and clients that ask again and again
  take time from each other. With more cores, or with Redis on another machine, round trips count for more, and CPU
  counts for less.
- Load of the machine in the minute before: ${inDigits(machine.load)}.${
    isBusy(machine)
      ? ' **Other programs were busy**, so these numbers are rough, and unfavourable to whatever needs more CPU.'
      : ''
  }
- Node ${machine.node}, Redis ${machine.redis}, and ioredis ${machine.ioredis} for every library.
- Wherever several callers want one key, the times at which they were inside are compared across all processes. Two must
  never be inside at once: ${violations.length === 0 ? 'they never were.' : `**they were**: ${violations.join('; ')}.`}

## What was to be reached

${table(
  ['', 'measured', 'goal', ''],
  goals.map((goal) => [
    goal.text,
    withSpread(goal.value),
    bound(goal),
    isMet(goal) ? 'met' : 'not met',
  ]),
)}

## What is not good

${
  missed.length === 0
    ? 'Every goal was met in this run.'
    : missed
        .map(
          ({ text, value, aim }) =>
            `- ${text}: ${inDigits(value.median)} instead of ${inDigits(aim)}.`,
        )
        .join('\n')
}
- Without contention, two round trips are the least for a lock that is to be released safely. Only those who do not
  wait for the second one (\`awaitRelease: false\`) or keep the lease (\`lingerMs\`) can be faster than the floor.
- In exchange for its share of CPU, ours also gives out fencing numbers, keeps a queue and renews leases. Those who need
  none of that pay for it nevertheless.
- The peers poll. With the short pauses that they have here, they get a free key sooner, and they load Redis with
  commands that fail. The pauses that they have by default spare Redis, and make waiting longer.

## One key, more and more processes

![Holds per second against 1, 2, 4 and 8 processes](benchmarks/throughput.svg)

![p99 wait against 1, 2, 4 and 8 processes](benchmarks/waits.svg)

## What was measured

${scenarios.map(section).join('\n\n')}

## Settings

Every lock has a lease of 30 s, and all are on the same server. The floor and the peers have one connection for each
process, with the defaults of ioredis; ours opens the two that it always has. Because they are compared for speed, the
peers pause much more briefly between two tries than they do by default.

${table(
  ['', 'settings'],
  adapters.map(({ name, settings }) => [name, settings]),
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
