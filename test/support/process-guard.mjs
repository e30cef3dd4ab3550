/**
 * Preloaded (`node --import`) into every Node process that a test starts. An unhandled rejection or a warning ends the
 * process at once, with the reason on stderr and an exit code of its own. The defect is also written to a file that the
 * guarded environment reads, so that the test fails even if it ignores the exit code.
 */
import { appendFileSync } from 'node:fs';
import { textOf, watchForDefects } from './defects.mjs';

/** An exit code that no other code uses. */
const EXIT_CODE = 97;

watchForDefects((defect) => {
  report(defect);
  console.error(defect);
  process.exit(EXIT_CODE);
});

// Node prints these errors and ends the process.
process.on('uncaughtExceptionMonitor', (error) => report(`Uncaught exception: ${textOf(error)}`));

/** @param {string} defect */
function report(defect) {
  const file = process.env['TEST_GUARD_REPORT'];
  if (file === undefined) return;
  const program = process.argv[1] ?? 'node';
  appendFileSync(file, `${JSON.stringify(`In process ${process.pid} (${program}): ${defect}`)}\n`);
}
