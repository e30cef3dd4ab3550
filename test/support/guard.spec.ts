/** Tests what the guard of all suites detects, with suites that run in a separate jest process. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runCommand, UNGUARDED } from './run-command.js';

interface Suite {
  readonly status: string;
  readonly message: string;
  readonly assertionResults: readonly { readonly status: string }[];
}

const CONFIG = fileURLToPath(new URL('../fixtures/guard/jest.config.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'guard-spec-'));
let suites: ReadonlyMap<string, Suite>;
let exitCode: number;

async function runJest(names: string[], env: Record<string, string>): Promise<number> {
  const file = join(folder, 'result.json');
  const jest = createRequire(import.meta.url).resolve('jest/bin/jest');
  const options = ['--config', CONFIG, '--json', `--outputFile=${file}`, ...names];
  const args = ['--disable-warning=ExperimentalWarning', '--experimental-vm-modules', jest];
  const ended = await runCommand(process.execPath, [...args, ...options], folder, env);
  const { testResults } = JSON.parse(readFileSync(file, 'utf8')) as {
    testResults: (Suite & { name: string })[];
  };
  suites = new Map(testResults.map((suite) => [basename(suite.name, '-case.ts'), suite]));
  return ended.code;
}

beforeAll(async () => {
  // It must fail because of the guard under test, not because of the guard of this process.
  exitCode = await runJest([], UNGUARDED);
});

afterAll(() => rmSync(folder, { recursive: true }));

describe('a suite fails', () => {
  it.each([
    ['an unhandled rejection', 'rejection.case.ts', 'left to nobody'],
    ['an unhandled rejection in a CommonJS suite', 'rejection.cjs', 'left to nobody'],
    ['a rejection that is handled too late', 'late-handler.case.ts', 'handled too late'],
    ['a rejection after its test', 'after-its-test.case.ts', 'from the test before'],
    ['a rejection after the last test', 'after-the-last-test.case.ts', 'after the last test'],
    ['a listener leak', 'listener-leak.case.ts', 'MaxListenersExceededWarning'],
    ['a listener leak in a CommonJS suite', 'listener-leak.cjs', 'MaxListenersExceededWarning'],
    ['a timer of Infinity', 'endless-timer.case.ts', 'TimeoutOverflowWarning'],
    ['a rejection that a child process swallows', 'process-rejection.case.ts', 'swallowed'],
    ['a listener leak in a child process', 'process-leak.case.ts', 'MaxListenersExceededWarning'],
    ['an exception in a child of a child', 'grandchild.case.ts', 'far away'],
  ])('for %s', (_, name, reason) => {
    expect(suites.get(name)?.status).toBe('failed');
    expect(suites.get(name)?.message).toContain(reason);
  });

  it('and then so does the run', () => {
    expect(exitCode).toBe(1);
  });
});

it('a suite without such faults passes', () => {
  expect(suites.get('clean.case.ts')).toMatchObject({ status: 'passed', message: '' });
});

describe('a suite in which two tests fail', () => {
  const outcomes = (): string[] | undefined =>
    suites.get('two-failures.case.ts')?.assertionResults.map(({ status }) => status);

  it('shows both', () => {
    expect(outcomes()).toEqual(['failed', 'failed']);
  });

  it('skips the second one if only the first is requested', async () => {
    const env = { ...UNGUARDED, TEST_FAIL_FAST: '1' };
    expect(await runJest(['two-failures'], env)).toBe(1);
    expect(outcomes()).toEqual(['failed', 'pending']);
  });
});
