/**
 * Runs jest and ends its output with one plain line, `N passed, N failed`. A describe that is named
 * `skipped: no MariaDB` is why some were skipped: its name is printed before, and how many. Arguments are passed on to jest: `npm test -- key-template`. A suite that could not be
 * loaded counts as one failed test. The exit code is 0 only when something ran and nothing failed.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-jest-'));
const resultFile = join(folder, 'result.json');

const jest = spawn(
  process.execPath,
  [
    '--disable-warning=ExperimentalWarning',
    '--experimental-vm-modules',
    createRequire(import.meta.url).resolve('jest/bin/jest'),
    '--json',
    `--outputFile=${resultFile}`,
    ...process.argv.slice(2),
  ],
  { detached: true, stdio: ['ignore', 'inherit', 'inherit'] },
);
// Jest's workers outlive a jest that was ended by a signal, so the whole process group gets it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => process.kill(-jest.pid, signal));
}

jest.on('close', (code, signal) => {
  const result = readResult();
  rmSync(folder, { recursive: true, force: true });

  const passed = result?.numPassedTests ?? 0;
  const failed = (result?.numFailedTests ?? 0) + (result?.numRuntimeErrorTestSuites ?? 0);
  const skipped = (result?.numPendingTests ?? 0) + (result?.numTodoTests ?? 0);

  if (!result) console.log(`jest ended without a result (${signal ?? `exit code ${code}`})`);
  for (const reason of skipReasons(result)) console.log(reason);
  if (skipped > 0) console.log(`${skipped} skipped`);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = code === 0 && failed === 0 && passed > 0 ? 0 : code || 1;
});

/** Names of describes that say why the tests in them were skipped, each once. */
function skipReasons(result) {
  const skipped = (result?.testResults ?? [])
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === 'pending');
  const names = skipped.flatMap(({ ancestorTitles }) => ancestorTitles);
  return new Set(names.filter((name) => name.startsWith('skipped: ')));
}

/** What jest wrote, or undefined when it was ended before it could. */
function readResult() {
  try {
    return JSON.parse(readFileSync(resultFile, 'utf8'));
  } catch {
    return undefined;
  }
}
