import { beforeAll, describe, expect, it } from '@jest/globals';
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../../../test/api/markdown.js';
import { TemporaryProject } from '../../../test/api/temporary-project.js';
import { afterTest } from '../../../test/support/after-test.js';
import { type CommandResult, runCommand, UNGUARDED } from '../../../test/support/run-command.js';
import { packageFacts } from '../src/package-facts.js';
import { OURS } from '../src/packages.js';
import { PAGES, readResults } from '../src/report/files.js';
import { pageWith } from '../src/report/page.js';
import type { Scenario, Side } from '../src/scenario.js';

const results = readResults();
const NAMES = results.scenarios.map(({ name }) => name);

/** The others need both libraries, so only `npm run compare` runs them, which installs the peers. */
const WITHOUT_PEERS = NAMES.filter((name) => !name.startsWith('migrate-'));

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

it('lists the scenarios, and the saved results are of all of them', () => {
  expect({ code: listed.code, stderr: listed.stderr }).toEqual({ code: 0, stderr: '' });
  const lines = listed.stdout.trimEnd().split('\n');
  expect(lines.map((line) => line.split(' ')[0])).toEqual(NAMES);
});

// A part at a time, because a command has two minutes.
describe.each([0, 1, 2, 3])('our side, part %i', (part) => {
  const names = WITHOUT_PEERS.filter((_, i) => i % 4 === part);

  it(`does what it should: ${names.join(', ')}`, async () => {
    const { code, stdout, stderr } = await compare('--ours', '--only', names.join(','));
    expect({ code, stderr, stdout }).toMatchObject({ code: 0, stderr: '' });
    const held = stdout.split('\n').flatMap((line) => /^(\S+): ✓/.exec(line)?.[1] ?? []);
    expect(held.sort()).toEqual([...names].sort());
  });
});

describe('a side of ours that fails', () => {
  const [name = ''] = WITHOUT_PEERS;

  it.each([
    ['says so', "async play() { return { holds: false, figure: 'two', words: '' }; }", '✗ two'],
    ['throws', "async play() { throw new TypeError('broken'); }", 'TypeError: broken'],
    ['ends its process', 'async play() { process.exit(3); }', '✗ exit code 3'],
    [
      'hangs',
      'limitMs: 2_000, play() { setInterval(() => {}, 1_000); return new Promise(() => {}); }',
      '✗ hangs',
    ],
  ])('fails the run: it %s', async (_, play, line) => {
    const project = new TemporaryProject();
    afterTest(() => project.remove());
    cpSync(join(ROOT, 'tools/compare/dist'), join(project.folder, 'dist'), { recursive: true });
    project.link('dev-servers', 'kit', 'ioredis', 'nestjs-locked', 'reflect-metadata', 'prettier');
    project.link('@nestjs/core');
    project.write('package.json', { type: 'module' });
    project.write(
      'dist/scenarios/index.js',
      `const ours = { settings: '', open() {} };
       export const SCENARIOS = { '${name}': { peers: [], ours, ${play} } };`,
    );

    const { code, stdout, stderr } = await project.node(
      ['dist/main.js', '--ours', '--only', name],
      UNGUARDED,
    );

    expect([code, stderr]).toEqual([1, `FAILED: ${name}\n`]);
    expect(stdout).toContain(line);
  });
});

it.each([
  [['--only', 'speed'], "--only is 'speed': give one of fifty-callers"],
  [['--save', '--ours'], '--save writes what came out on both sides'],
])('says what is wrong with %j', async (args, message) => {
  const { code, stderr } = await compare(...args);
  expect(code).toBe(1);
  expect(stderr).toContain(message);
});

describe('the pages of the comparison', () => {
  it.each(PAGES)('%s has the tables of the saved results', async (path) => {
    const page = readFileSync(path, 'utf8');
    expect(await pageWith(results, page, path)).toBe(page);
  });

  it('have each table in one page', () => {
    const text = PAGES.map((path) => readFileSync(path, 'utf8')).join('');
    const named = [...text.matchAll(/<!-- (\w+): written by npm run compare -->/g)];
    const parts = ['table', 'packages', 'versions', 'settings', 'details'];
    expect(named.map(([, name]) => name)).toEqual(parts);
  });

  it('have results in which our side did what it should', () => {
    expect(results.scenarios.filter(({ ours }) => !ours.outcome.holds)).toEqual([]);
  });

  it('have the settings and notes of the scenarios', async () => {
    // Nest's own packages cannot be loaded here beside those of the adapters.
    const program = `import { SCENARIOS } from '${import.meta.resolve('../dist/scenarios/index.js')}';
      console.log(JSON.stringify(SCENARIOS));`;
    const args = ['--input-type=module', '--eval', program];
    const { stdout, stderr } = await runCommand(process.execPath, args, ROOT, UNGUARDED);
    expect(stderr).toBe('');
    const SCENARIOS = JSON.parse(stdout) as Record<string, Scenario>;
    const textsOf = ({ settings, note }: Pick<Side<unknown>, 'settings' | 'note'>): unknown => [
      settings,
      note,
    ];
    for (const { name, peers, ours } of results.scenarios) {
      const scenario = SCENARIOS[name] as Scenario;
      expect([name, ...[...peers, ours].map(textsOf)]).toEqual([
        name,
        ...[...scenario.peers, scenario.ours].map(textsOf),
      ]);
    }
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
    const played = results.scenarios.flatMap(({ peers }) =>
      peers.map(({ library, version }) => `${library} ${version}`),
    );
    const measured = peers.map(({ library, version }) => `${library} ${version}`);
    expect(measured.sort()).toEqual([...new Set(played)].sort());
  });

  it('have results of the versions that are installed', () => {
    const { packages } = readJson<{ packages: Record<string, { version: string }> }>(
      'tools/compare/package-lock.json',
    );
    for (const peer of results.scenarios.flatMap(({ peers }) => peers)) {
      const installed = [peer.library, 'redlock4'].map((name) => packages[`node_modules/${name}`]);
      const versions = installed.map((it) => it?.version.replace(/^v/, ''));
      expect([peer.library, versions]).toEqual([
        peer.library,
        expect.arrayContaining([peer.version]),
      ]);
    }
  });
});

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as T;
}
