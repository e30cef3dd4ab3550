/**
 * examples/playground, as StackBlitz runs it: copied, installed from its package.json with the packed library, started.
 * It needs a registry of packages, and no Redis.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../tools/dev-servers/src/free-port.js';
import { LIBRARY } from '../api/entry-points.js';
import { readDocument, ROOT } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { afterTest } from '../support/after-test.js';
import { endWithTests } from '../support/end-with-tests.js';
import { eventually } from '../support/eventually.js';
import { runCommand, UNGUARDED } from '../support/run-command.js';

const PLAYGROUND = join(ROOT, 'examples/playground');
const WITHOUT_CONTEXT = join(ROOT, 'test/fixtures/without-async-context.mjs');

const project = new TemporaryProject();
const readme = readDocument('examples/playground/README.md');
/** What it prints, according to its README. */
const shown = readme.text.split(/^```\n/m).find((part) => part.includes('oversold')) ?? '';

beforeAll(async () => {
  for (const path of ['package.json', 'tsconfig.json', 'src']) {
    cpSync(join(PLAYGROUND, path), join(project.folder, path), { recursive: true });
  }
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', project.folder];
  const { stdout } = await runCommand('npm', pack, LIBRARY, UNGUARDED);
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  // As long as no version is published, the packed one stands for it. WebContainers run no scripts of packages either.
  const install = ['install', `./${filename}`, '--ignore-scripts', '--no-audit', '--no-fund'];
  const installed = await runCommand('npm', install, project.folder, UNGUARDED);
  expect([installed.code, installed.code === 0 ? '' : installed.stderr]).toEqual([0, '']);
}, 240_000);

afterAll(() => project.remove());

describe('the playground', () => {
  it.each([
    ['in Node', ''],
    ['where the async context is lost at every await, as in the browser', WITHOUT_CONTEXT],
  ])('oversells without the lock, and not with it: %s', async (_, preloaded) => {
    const port = await freePort();
    const { code, stdout } = await runCommand('npx', ['tsc'], project.folder, UNGUARDED);
    expect([code, stdout]).toEqual([0, '']);
    const options = preloaded === '' ? [] : ['--import', preloaded];
    const child = spawn(process.execPath, [...options, 'dist/main.js'], {
      cwd: project.folder,
      // Anything that asks for Redis fails.
      env: { ...process.env, ...UNGUARDED, PORT: String(port), REDIS_URL: 'redis://localhost:1' },
    });
    endWithTests(child);
    afterTest(() => child.kill());
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text: Buffer) => (output += text.toString()));
    }
    await eventually(() => expect(output).toContain(`http://localhost:${port}`));
    const lines = output.trim().split('\n');
    expect(sorted(lines.slice(0, -2))).toEqual(sorted(shown.trimEnd().split('\n')));
    expect(output).toContain('2 sold of 1: oversold');
    expect(output.indexOf('told: sold out')).toBeGreaterThan(
      output.lastIndexOf('buys, and writes'),
    );

    const page = await (await fetch(`http://localhost:${port}`)).text();
    expect(page.trim()).toBe(lines.slice(0, -2).join('\n'));
  });

  it('starts with one command, and needs no native module', () => {
    const manifest = JSON.parse(readFileSync(join(PLAYGROUND, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
      stackblitz: { startCommand: string };
      dependencies: Record<string, string>;
    };
    expect(manifest.stackblitz.startCommand).toBe('npm start');
    expect(manifest.scripts).toEqual({ start: 'tsc && node dist/main.js' });
    expect(manifest.dependencies['nestjs-locked']).toBe('latest');
  });

  it('has no native module among its packages', async () => {
    const { stdout } = await runCommand(
      'find',
      ['node_modules', '-name', '*.node'],
      project.folder,
    );
    expect(stdout).toBe('');
  });
});

/** Which of the two buyers comes first is not known. */
function sorted(lines: readonly string[]): string[] {
  return lines.map((line) => line.replaceAll(/Ann|Bob/g, 'A buyer')).sort();
}
