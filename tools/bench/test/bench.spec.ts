import { describe, expect, it } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterTest } from '../../../test/support/after-test.js';
import { runCommand } from '../../../test/support/run-command.js';
import { overlapsIn } from '../src/measure/exclusion.js';
import { handOversIn } from '../src/measure/hand-overs.js';
import type { Holds } from '../src/measure/hold-log.js';
import { sentBetween } from '../src/measure/server-statistics.js';
import { jainFairness, ratioOf, spreadOf, spreadsOf } from '../src/measure/statistics.js';
import { readOptions } from '../src/options.js';
import { chartsOf } from '../src/report/charts.js';
import { regressions } from '../src/report/check.js';
import { documentOf } from '../src/report/document.js';
import { pagesOf, readRelease } from '../src/report/files.js';
import { againstBare } from '../src/report/overview.js';
import { scenarioTable } from '../src/report/table.js';
import type { Goal, Results, Row } from '../src/results.js';
import { SCENARIOS } from '../src/scenarios/index.js';
import { runLoad } from '../src/worker/load.js';

const MAIN_FILE = 'tools/bench/dist/main.js';

describe('npm run bench', () => {
  it('measures a scenario, and writes down what it has found', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bench-test-'));
    afterTest(() => rmSync(folder, { recursive: true }));
    const out = join(folder, 'results.json');
    const short = ['--quick', '--rounds', '1', '--pace', '0.03', '--only', 'sequence'];

    const { code, stdout, stderr } = await runCommand(
      process.execPath,
      [MAIN_FILE, ...short, '--out', out],
      process.cwd(),
    );

    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('sequence: One caller, one key after the other, no contention');
    expect(stdout).toContain(
      'Left out: many-keys, own-keys-4, own-keys-8, own-keys-16, own-keys-256, server-cpu',
    );
    const { scenarios, violations } = JSON.parse(readFileSync(out, 'utf8')) as Results;
    expect(violations).toEqual([]);
    expect(scenarios[0]?.rows.map(({ adapter }) => adapter)).toEqual(
      expect.arrayContaining(['raw', 'redlock', 'redlock-universal', 'ours', 'ours-no-await']),
    );
    for (const { values } of scenarios[0]?.rows ?? []) {
      expect(values['client-cpu']?.median).toBeGreaterThan(0);
    }
  });

  it('says what is wrong with an option, and measures nothing', async () => {
    const { code, stderr } = await runCommand(
      process.execPath,
      [MAIN_FILE, '--only', 'speed'],
      process.cwd(),
    );
    expect(code).toBe(1);
    expect(stderr).toContain("--only is 'speed': give one of sequence, many-keys");
  });

  it('saves whole runs only', () => {
    expect(() => readOptions(['--save', '--quick'])).toThrow('--save keeps what a whole run');
    expect(readOptions(['--save', '--check']).scenarios).toEqual(SCENARIOS);
    const quick = readOptions(['--quick']).scenarios.map(({ id }) => id);
    expect(quick).toContain('sequence');
    expect(quick).not.toContain('held-locks');
  });
});

describe('the check against a release', () => {
  it.each<[string, Partial<Goal>, Partial<Goal>, boolean]>([
    ['a ratio that is the same', at(1), at(1), false],
    ['one that is a little lower', at(1), at(0.9), false],
    ['one that is much lower', at(1), at(0.7), true],
    ['one that is much lower, but scattered', at(1), at(0.7, 0.4, 0.9), false],
    ['one that was scattered itself', at(1, 0.6, 1.4), at(0.7), false],
    ['one that should be low and is much higher', low(1), low(1.3), true],
    ['one that should be low and is lower', low(1), low(0.5), false],
    ['a limit that is kept less well', limit(1), limit(9), false],
    ['a limit that is kept no longer', limit(1), limit(11), true],
    ['a limit that was not kept before', limit(11), limit(99), false],
  ])('%s', (_, before, now, isWorse) => {
    expect(regressions(resultsOf(now), resultsOf(before))).toHaveLength(isWorse ? 1 : 0);
  });

  it('names the number, what it is and what it was', () => {
    expect(regressions(resultsOf(at(0.5)), resultsOf(at(1)))).toEqual([
      'Holds per second: 0.5, at the release of 0.1.0 1 (goal 0.9)',
    ]);
  });

  it('compares what both have measured', () => {
    expect(regressions({ scenarios: [] }, resultsOf(at(1)))).toEqual([]);
  });

  function at(median: number, low = median, high = median): Partial<Goal> {
    return { value: { median, low, high } };
  }
  function low(median: number): Partial<Goal> {
    return { ...at(median), better: 'lower', aim: 2 };
  }
  function limit(median: number): Partial<Goal> {
    return { ...at(median), better: 'lower', aim: 10, isLimit: true };
  }
});

describe('the reports', () => {
  const results = resultsOf({ value: spreadOf([0.5]) });

  it('the pages and charts are those of the last release', async () => {
    for (const [file, text] of await pagesOf(readRelease())) {
      expect({ file, text }).toEqual({ file, text: readFileSync(file, 'utf8') });
    }
  });

  it('the page says first how a lock compares with bare commands', () => {
    const { scenarios } = readRelease();
    const rateOf = (adapter: string): number =>
      scenarios.find(({ id }) => id === 'sequence')?.rows.find((row) => row.adapter === adapter)
        ?.values['rate']?.median ?? NaN;
    const [text, rate] = againstBare({ scenarios })[0] as [string, string];
    expect(text).toBe('one caller, nobody else wants the key');
    expect(Number(rate)).toBeCloseTo(rateOf('ours') / rateOf('raw'), 1);
  });

  it('the page begins with the comparison, and ends with the goals and which of them were missed', () => {
    const page = documentOf(results);
    expect(page.match(/^## .+$/gm)).toEqual([
      '## How it compares',
      '## How it is measured',
      '## Goals',
    ]);
    expect(page).toMatch(
      /met\n0 of 1 goals[^]*\| Holds per second +\| at least 0.9 +\| 0.5 +\|\n$/,
    );
    expect(page).toContain('never inside at once.');
    expect(page).not.toContain('Other programs were busy');
    const busy = { ...results, machine: { ...results.machine, load: 2 } };
    expect(documentOf(busy)).toContain('Other programs were busy');
    expect(documentOf({ ...results, violations: ['raw: two'] })).toContain(
      '**inside at once**: raw: two.',
    );
  });

  it('the table has them, too', () => {
    const [scenario] = results.scenarios;
    expect(scenarioTable(scenario!)).toMatch(/MISSED Holds per second: .* goal at least 0\.9/);
  });

  it('the charts say in words what they show', () => {
    const charts = chartsOf(results);
    const names = ['throughput', 'waits'];
    expect([...charts.keys()]).toEqual(
      names.flatMap((name) => [`${name}.svg`, `${name}-narrow.svg`]),
    );
    for (const svg of charts.values()) {
      expect(svg).toMatch(/aria-label="[^"]*nestjs-locked: 1: 1,000, 8: 8,000/);
      expect(svg).not.toContain('NaN');
    }
    expect(chartsOf({ scenarios: [] }).size).toBe(0);
  });
});

describe('what is measured', () => {
  it('a lock that lets everybody in is found out', async () => {
    const hold = (_key: string, work: () => Promise<void>): Promise<void> => work();
    const callers = { keys: [['a'], ['a']], startAt: 0, ms: 200, workMs: 1, limit: 1 };
    const { intrusions, log } = await runLoad({ hold, close: async () => {} }, callers);
    expect(intrusions).toBeGreaterThan(0);
    expect(overlapsIn([log]).count).toBeGreaterThan(0);
  });

  it('two inside at the same time are found, and by how long', () => {
    const log = (
      ...holds: [from: number, until: number][]
    ): Parameters<typeof overlapsIn>[0][0] => ({
      from: Float64Array.from(holds, ([from]) => from),
      until: Float64Array.from(holds, ([, until]) => until),
    });
    expect(overlapsIn([log([0, 10], [20, 30]), log([10, 20])])).toEqual({ count: 0, longestMs: 0 });
    expect(overlapsIn([log([0, 5e6], [9e6, 9e6]), log([3e6, 4e6], [6e6, 8e6])])).toEqual({
      count: 1,
      longestMs: 1,
    });
    expect(overlapsIn([log([0, 5e6]), log([1e6, 2e6], [3e6, 4e6])]).count).toBe(2);
    const three = [log([0, 5e6]), log([1e6, 9e6]), log([2e6, 4e6])];
    expect(overlapsIn(three, 3).count).toBe(0);
    expect(overlapsIn(three, 2)).toEqual({ count: 1, longestMs: 2 });
  });

  it('a hand-over lasts from the end of a hold until another process is inside', () => {
    const log = (...holds: [from: number, until: number][]): Holds => ({
      from: Float64Array.from(holds, ([from]) => from * 1e6),
      until: Float64Array.from(holds, ([, until]) => until * 1e6),
    });
    const took = handOversIn([log([0, 10], [11, 20], [50, 60]), log([23, 40])]);
    expect(took.p50Ms).toBe(6.5); // 3 and 10, and not the one of the process to itself
    expect(took.p99Ms).toBeCloseTo(9.93);
    expect(handOversIn([log([0, 10], [11, 20])]).p50Ms).toBeNaN();
  });

  it('a median, its spread, a ratio round by round, and fairness', () => {
    expect(spreadOf([5, 1, 2, 4, 3])).toEqual({ median: 3, low: 2, high: 4 });
    expect(ratioOf([2, 40, 600], [1, 10, 100])).toMatchObject({ median: 4, low: 3, high: 5 });
    expect(jainFairness([5, 5, 5, 5])).toBe(1);
    expect(jainFairness([5, 0, 0, 0])).toBe(0.25);
  });

  it('what clients sent, without the commands inside of scripts', () => {
    const before = new Map([['evalsha', { calls: 10, us: 100 }]]);
    const after = new Map([
      ['evalsha', { calls: 30, us: 500 }],
      ['set', { calls: 40, us: 80 }],
      ['get', { calls: 99, us: 99 }],
    ]);
    const shares = new Map([
      ['evalsha', 1],
      ['set', 0.5],
    ]);
    expect(sentBetween(before, after, shares)).toEqual({ commands: 40, us: 440 });
  });
});

/** A run with one goal and two points for a chart. */
function resultsOf(goal: Partial<Goal>): Results {
  const row = (name: string, adapter: string, processes: number): Row => ({
    name,
    adapter,
    values: spreadsOf({ processes, rate: processes * 1_000, p99: processes * 1_000 }),
  });
  const machine = { cores: 2, processor: 'a processor', memoryGb: 8, load: 0.1 };
  const value = spreadOf([1]);
  return {
    version: '0.1.0',
    date: '2026-01-01',
    mode: 'full',
    machine: { ...machine, node: '20.19.0', redis: '7.0.0', ioredis: '6.0.0' },
    adapters: [{ name: 'nestjs-locked', settings: 'the defaults' }],
    violations: [],
    scenarios: [
      {
        id: 'scaling',
        title: 'Callers',
        what: 'What it is.',
        columns: [{ id: 'rate', title: 'rate', unit: '1/s' }],
        rows: [1, 8].flatMap((processes) => [
          row('nestjs-locked', 'ours', processes),
          row('a peer', 'peer', processes),
        ]),
        goals: [
          { id: 'rate', text: 'Holds per second', better: 'higher', aim: 0.9, value, ...goal },
        ],
      },
    ],
  };
}
