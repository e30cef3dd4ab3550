import { beforeAll, describe, expect, it } from '@jest/globals';
import { faketime } from 'dev-servers';
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../../../test/api/markdown.js';
import { TemporaryProject } from '../../../test/api/temporary-project.js';
import { afterTest } from '../../../test/support/after-test.js';
import { type CommandResult, runCommand, UNGUARDED } from '../../../test/support/run-command.js';
import { isExpected } from '../src/expectation.js';
import { packageFacts } from '../src/package-facts.js';
import { OURS } from '../src/packages.js';
import { PAGES, readResults } from '../src/report/files.js';
import { pageWith } from '../src/report/page.js';
import type { Scenario } from '../src/scenario.js';

const results = readResults();
const NAMES = results.scenarios.map(({ name }) => name);

/** The migrations need both libraries: only `npm run compare` runs them, which installs the peers. */
const WITHOUT_PEERS = [...NAMES, ...results.notPlayed].filter(
  (name) => !name.startsWith('migrate-') && name !== 'even-number-of-servers' && isPlayable(name),
);

/** Without libfaketime, no clock of a server can step. */
function isPlayable(name: string): boolean {
  return faketime !== undefined || !/^quorum-clocks?-step$/.test(name);
}

/** The program itself; `compare/run.mjs` has built it. */
const compare = (...args: readonly string[]): Promise<CommandResult> =>
  runCommand(process.execPath, ['tools/compare/dist/main.js', ...args], ROOT);

let listed: CommandResult;

beforeAll(async () => {
  // Without npm: nothing can be installed.
  listed = await runCommand(process.execPath, ['tools/compare/run.mjs', '--list'], ROOT, {
    PATH: '',
  });
});

it('lists the scenarios, and the saved results have each, or say that it was not played', () => {
  expect({ code: listed.code, stderr: listed.stderr }).toEqual({ code: 0, stderr: '' });
  const lines = listed.stdout.trimEnd().split('\n');
  const listedNames = lines.map((line) => line.split(' ')[0]);
  expect(listedNames.filter((name = '') => !results.notPlayed.includes(name))).toEqual(NAMES);
  expect([...NAMES, ...results.notPlayed].sort()).toEqual(listedNames.sort());
});

// A part at a time, because a command has two minutes.
describe.each([0, 1, 2, 3])('our sides, part %i', (part) => {
  const names = WITHOUT_PEERS.filter((_, i) => i % 4 === part);

  it(`do what is expected of them: ${names.join(', ')}`, async () => {
    const { code, stdout, stderr } = await compare('--ours', '--only', names.join(','));
    expect({ code, stderr, stdout }).toMatchObject({ code: 0, stderr: '' });
    expect(stdout).toContain(`${names.length} scenarios, 0 unexpected outcomes`);
  });
});

const [SOME = ''] = WITHOUT_PEERS;

/** The program with no scenario but this one. */
async function compareWith(
  sides: string,
  play: string,
  ...args: readonly string[]
): Promise<CommandResult> {
  const project = new TemporaryProject();
  afterTest(() => project.remove());
  cpSync(join(ROOT, 'tools/compare/dist'), join(project.folder, 'dist'), { recursive: true });
  project.link('dev-servers', 'kit', 'ioredis', 'nestjs-locked', 'reflect-metadata', 'prettier');
  project.link('@nestjs/core');
  project.write('package.json', { type: 'module' });
  project.write(
    'dist/scenarios/index.js',
    `import { appendFileSync } from 'node:fs';
     const open = () => {};
     export const SCENARIOS = { '${SOME}': async () => ({ sides: [${sides}], ${play} }) };`,
  );
  return project.node(['dist/main.js', ...args, '--only', SOME], UNGUARDED);
}

const OUR_SIDE = `{ library: '${OURS}', settings: '', expected: '✓ two in # s', open }`;

describe('a side of ours that does not do what is expected of it', () => {
  it.each([
    [
      'says so',
      "async play() { return { holds: false, figure: 'two in 1 s', words: '' }; }",
      '✗ two',
    ],
    [
      'does better',
      "async play() { return { holds: true, figure: 'one in 1 s', words: '' }; }",
      '✓ one',
    ],
    ['throws', "async play() { throw new TypeError('broken'); }", 'TypeError: broken'],
    ['ends its process', 'async play() { process.exit(3); }', '✗ exit code 3'],
    [
      'hangs',
      'limitMs: 2_000, play() { setInterval(() => {}, 1_000); return new Promise(() => {}); }',
      '✗ hangs',
    ],
  ])('fails the run: it %s', async (_, play, line) => {
    const { code, stdout, stderr } = await compareWith(OUR_SIDE, play, '--ours');

    expect({ code, stderr }).toMatchObject({ code: 1 });
    expect(stderr).toMatch(`UNEXPECTED ${SOME}: ${OURS}: '✓ two in # s' was expected, not '`);
    expect(stderr).toContain(line);
    expect(stdout).toContain('1 scenarios, 1 unexpected outcomes');
  });
});

it('takes a loss of ours for a result, if that is what the scenario expects', async () => {
  const { code, stderr, stdout } = await compareWith(
    OUR_SIDE.replace('✓', '✗'),
    "async play() { return { holds: false, figure: 'two in 1.5 s', words: '' }; }",
    '--ours',
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain('✗ two in 1.5 s');
});

it('plays both sides equally often, also one that fails, and says what came out each time', async () => {
  // A peer that can be loaded without being installed here.
  const sides = ['kit', OURS].map(
    (library) =>
      `{ library: '${library}', settings: '', expected: ['✓ in # s', '✗ in # s'], open }`,
  );
  const play = `async play() {
    appendFileSync('runs', process.argv[3] + '\\n');
    const count = readFileSync('runs', 'utf8').split(process.argv[3]).length - 1;
    return { holds: process.argv[3] === 'kit' || count > 1, figure: 'in ' + count * 1.5 + ' s', words: '' };
  }`;
  const { stdout, stderr, code } = await compareWith(
    sides.join(),
    play.replace(
      'appendFileSync',
      'const { readFileSync } = await import("node:fs"); appendFileSync',
    ),
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain('kit 0.1.0: ✓ in 1.5 to 4.5 s.');
  expect(stdout).toContain('✗ ✓ 2 of 3: in 3 to 4.5 s. ✗ 1 of 3: in 1.5 s.');
});

it.each([
  [['--only', 'speed'], "--only is 'speed': give one of fifty-callers"],
  [['--save', '--ours'], '--save writes what came out of all sides'],
])('says what is wrong with %j', async (args, message) => {
  const { code, stderr } = await compare(...args);
  expect(code).toBe(1);
  expect(stderr).toContain(message);
});

describe('the scenarios', () => {
  let scenarios: Record<string, Scenario>;
  const sidesOf = (name: string): Scenario['sides'] => scenarios[name]?.sides ?? [];

  beforeAll(async () => {
    scenarios = await loadedScenarios();
  });

  it('have every peer with an answer in the rows in which some were left out once', () => {
    const librariesOf = (name: string): string[] => sidesOf(name).map(libraryOf);
    expect(librariesOf('renewal-refused')).toEqual(
      expect.arrayContaining(['redlock', '@sesamecare-oss/redlock']),
    );
    expect(librariesOf('hundred-waiters')).toEqual(
      expect.arrayContaining(['node-redisson', 'simple-redis-mutex']),
    );
    expect(librariesOf('one-of-two-waiters')).toEqual(
      expect.arrayContaining(['redlock', 'redis-semaphore', 'simple-redis-mutex']),
    );
    expect(librariesOf('http-status')).toHaveLength(6);
    expect(librariesOf('es-module')).toHaveLength(14);
  });

  it.each([
    ['redis-hangs', 'redlock-universal', '`timeout: 500`'],
    ['acquire-times-out', 'redlock-universal', undefined],
    ['lock-lost', 'redis-semaphore', '`onLockLost`'],
    ['hundred-waiters', 'redis-semaphore', '`retryInterval: 2000`'],
    ['single-try', 'redlock4', 'in the constructor'],
    ['database-number', '@sesamecare-oss/redlock', '`db: 1`'],
    ['business-error', 'murlock', '`ignoreUnlockFail`'],
    ['lock-in-transaction', 'murlock', 'lock above'],
  ])('in %s, %s also has the settings with which it passes', (name, library, variant) => {
    const side = sidesOf(name).find((it) => it.library === library && it.variant === variant);
    expect([side?.expected].flat()[0]).toMatch(/^✓/);
  });

  it.each([
    'one-of-three-dies',
    'one-of-three-emptied',
    'no-right-to-subscribe',
    'redis-starts-later',
    'keys-left',
    'connections',
    'commands-per-lock',
    'lock-in-transaction',
  ])('expect that ours loses %s by default, and that somebody does not', (name) => {
    const documented = sidesOf(name).find((it) => it.library === OURS && it.variant === undefined);
    for (const outcome of [documented?.expected].flat()) expect(outcome).toMatch(/^✗/);
    const peers = sidesOf(name).filter(({ library }) => library !== OURS);
    expect(peers.some(({ expected }) => [expected].flat()[0]?.startsWith('✓'))).toBe(true);
  });

  it('blame no peer for another key, and mark no choice', () => {
    const migrations = Object.keys(scenarios).filter((name) => name.startsWith('migrate-'));
    for (const name of migrations) expect(sidesOf(name).map(libraryOf)).toEqual([OURS, OURS]);
    for (const { expected } of sidesOf('result-after-loss')) expect(expected).toMatch(/^[^✓✗]/);
  });
});

describe('the pages of the comparison', () => {
  it.each(PAGES)('%s has the tables of the saved results', async (path) => {
    const page = readFileSync(path, 'utf8');
    expect(await pageWith(results, page, path)).toBe(page);
  });

  it('have each table in one page', () => {
    const text = PAGES.map((path) => readFileSync(path, 'utf8')).join('');
    const named = [...text.matchAll(/<!-- (\w+): written by npm run compare -->/g)];
    const parts = ['table', 'choices', 'packages', 'versions', 'settings', 'details'];
    expect(named.map(([, name]) => name)).toEqual(parts);
  });

  it('have the sides of the scenarios, all of them played equally often, and what is expected of each', async () => {
    const scenarios = await loadedScenarios();
    for (const { name, sides } of results.scenarios) {
      const { sides: wanted, repeats = 3 } = scenarios[name] as Scenario;
      expect([name, ...sides.map(textsOf)]).toEqual([name, ...wanted.map(textsOf)]);
      for (const [i, { library, runs }] of sides.entries()) {
        // A run with `--once` has fewer, for all of them.
        expect([name, library, runs.length]).toEqual([name, library, sides[0]?.runs.length]);
        expect([1, repeats]).toContain(runs.length);
        const expected = wanted[i]?.expected ?? '';
        const surprises = runs.filter((outcome) => !isExpected(outcome, expected));
        expect([name, library, expected, surprises]).toEqual([name, library, expected, []]);
      }
    }
  });

  it('have a side of each library at its documented settings, and tell further ones apart', () => {
    for (const { name, sides } of results.scenarios) {
      const all = sides.map(({ library, version, variant = '' }) => [library, version, variant]);
      expect([name, new Set(all.map(String)).size]).toEqual([name, all.length]);
      const documented = all.filter(([, , variant]) => variant === '').map(String);
      expect([name, new Set(documented)]).toEqual([
        name,
        new Set(all.map(([library, version]) => String([library, version, '']))),
      ]);
    }
  });

  it('say first where ours loses', () => {
    const page = readFileSync(PAGES[0] as string, 'utf8');
    const rows = [...page.matchAll(/^\| \[.*?results\.md#(\S+)\) +\| (\S).*$/gm)];
    const lost = rows.filter(([, , mark]) => mark === '✗').map(([, name]) => name);
    expect(lost).toContain('one-of-three-dies');
    expect(rows.slice(0, lost.length).map(([, name]) => name)).toEqual(lost);
  });

  it('have no migration among the faults, and no mark where there is a choice', () => {
    const page = readFileSync(PAGES[0] as string, 'utf8');
    expect(page).not.toContain('#migrate-');
    const table = page.slice(page.indexOf('<!-- table:'), page.indexOf('<!-- end of table'));
    expect(table).not.toContain('#result-after-loss');
  });

  it('have our package about as large as it is, and each peer once', async () => {
    const [ours, ...peers] = results.packages;
    const now = await packageFacts(OURS);
    for (const size of ['download', 'unpacked'] as const) {
      const ratio = (ours?.[size] ?? 0) / now[size];
      expect([size, ratio, Math.abs(ratio - 1) < 0.1]).toEqual([size, ratio, true]);
    }
    const { dependencies, peers: needs, optional, library } = now;
    expect(ours).toMatchObject({ library, dependencies, peers: needs, optional });
    const played = results.scenarios
      .flatMap(({ sides }) => sides)
      .filter(({ library }) => library !== OURS)
      .map(({ library, version }) => `${library} ${version}`);
    const measured = peers.map(({ library, version }) => `${library} ${version}`);
    expect(measured.sort()).toEqual([...new Set(played)].sort());
  });

  it('have results of the versions that are installed', () => {
    const { packages } = readJson<{ packages: Record<string, { version: string }> }>(
      'tools/compare/package-lock.json',
    );
    const sides = results.scenarios.flatMap(({ sides }) => sides);
    for (const peer of sides.filter(({ library }) => library !== OURS)) {
      const installed = [peer.library, 'redlock4'].map((name) => packages[`node_modules/${name}`]);
      const versions = installed.map((it) => it?.version.replace(/^v/, ''));
      expect([peer.library, versions]).toEqual([
        peer.library,
        expect.arrayContaining([peer.version]),
      ]);
    }
  });
});

/** Nest's own packages cannot be loaded here beside those of the adapters. */
async function loadedScenarios(): Promise<Record<string, Scenario>> {
  const program = `import { SCENARIOS } from '${import.meta.resolve('../dist/scenarios/index.js')}';
    const all = Object.entries(SCENARIOS).map(async ([name, load]) => [name, await load()]);
    console.log(JSON.stringify(Object.fromEntries(await Promise.all(all))));`;
  const args = ['--input-type=module', '--eval', program];
  const { stdout, stderr } = await runCommand(process.execPath, args, ROOT, UNGUARDED);
  expect(stderr).toBe('');
  return JSON.parse(stdout) as Record<string, Scenario>;
}

/** As the results name a library that is installed under another name. */
function textsOf({
  library,
  variant,
  settings,
  note,
}: Pick<Scenario['sides'][number], 'library' | 'variant' | 'settings' | 'note'>): unknown {
  return [library === 'redlock4' ? 'redlock' : library, variant, settings, note];
}

function libraryOf({ library }: Pick<Scenario['sides'][number], 'library'>): string {
  return library;
}

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as T;
}
