import { type Goal, isMet, type Results, type ScenarioResult } from '../results.js';
import { inDigits, withSpread } from './format.js';

/** The page about the numbers, as Markdown. Everything in it comes from one run. */
export function documentOf(results: Results): string {
  const { version, date, machine, adapters, scenarios, violations } = results;
  const goals = scenarios.flatMap((scenario) => scenario.goals);
  const missed = goals.filter((goal) => !isMet(goal));
  return `# Benchmarks

This page is written by \`npm run bench -- --save\`, from one run of version ${version} on ${date}.

Absolute numbers say more about the machine than about a library. So everything was measured side by side on one Redis:
the least that a lock on Redis can cost (the raw floor), other libraries, and this one. Short rounds of all of them
follow each other, and ratios are formed round by round. A number is the median of the rounds, and in brackets is
where the middle half of them lies.

- Machine: ${machine.cores} cores (${machine.processor}), ${machine.memoryGb} GB. Redis and all clients share them, so
  whatever has more than two busy processes is bound by CPU: Redis and clients that ask again and again take each
  other's time. With more cores, or Redis on another machine, round trips count for more, and CPU counts for less.
- Node ${machine.node}, Redis ${machine.redis}, ioredis ${machine.ioredis} for every library.
- In every scenario with several callers it was checked that there were never two inside:
  ${violations.length === 0 ? 'there never were.' : `**there were**: ${violations.join('; ')}.`}

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
- Without contention, no lock can be faster than the two round trips of the floor, unless it does not wait for the
  second one (\`awaitRelease: false\`) or keeps the lease (\`lingerMs\`).
- Ours does more than the peers in the same time: it gives out fencing numbers, keeps a queue and renews leases. If you
  need none of that, the peers do less for a lock.
- Callers that poll are lucky or not. With short pauses, as here, they get a free key sooner, and load Redis with
  commands that fail. With the pauses that they have by default, their throughput under contention is many times lower.

## One key, more and more processes

![Holds per second against 1, 2, 4 and 8 processes](benchmarks/throughput.svg)

![p99 wait against 1, 2, 4 and 8 processes](benchmarks/waits.svg)

## What was measured

${scenarios.map(section).join('\n\n')}

## Settings

Every lock has a lease of 30 s and a connection of its own to the same server, with the defaults of ioredis. Each peer
waits as shortly as is reasonable between two tries, because it is compared for speed.

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
      if (value === undefined) return '';
      return value.low === value.high ? inDigits(value.median) : withSpread(value);
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
