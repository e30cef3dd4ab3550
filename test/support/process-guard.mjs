/**
 * Loaded before everything else (`node --import`) into every Node process that a test starts: an unhandled rejection
 * or a warning ends it at once, with the reason on stderr and an exit code of its own. What it found is also written
 * to a file that the guarded environment reads, so that the test fails even if nobody asks for the exit code.
 */
import { appendFileSync } from 'node:fs';
import { textOf, watchForDefects } from './defects.mjs';

/** Used by nothing else. */
const EXIT_CODE = 97;

watchForDefects((defect) => {
  report(defect);
  console.error(defect);
  process.exit(EXIT_CODE);
});

// Node prints these itself and ends the process.
process.on('uncaughtExceptionMonitor', (error) => report(`Uncaught exception: ${textOf(error)}`));

/** @param {string} defect */
function report(defect) {
  const file = process.env['TEST_GUARD_REPORT'];
  if (file === undefined) return;
  const program = process.argv[1] ?? 'node';
  appendFileSync(file, `${JSON.stringify(`In process ${process.pid} (${program}): ${defect}`)}\n`);
}
