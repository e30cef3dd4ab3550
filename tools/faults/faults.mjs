/**
 * Runs jest on every test that takes Redis, its connections or the locking processes away, as often as one likes and
 * under load: jest itself neither repeats a run nor puts a load beside it.
 *
 *     npm run faults
 *     npm run faults -- --times 10 --load    ten times in a row, with two busy processes beside it
 *     npm run faults -- --long               a million tries, a wait of minutes, 10,000 hand-overs
 *
 * What takes minutes (a wait of three of them, a million tries) is done in full here, and shorter in
 * `npm run test:tools`.
 * Stops at the first failure. The exit code is 0 only when every run was green.
 */
import { runCLI } from 'jest';
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    times: { type: 'string', default: '1' },
    load: { type: 'boolean', default: false },
    long: { type: 'boolean', default: false },
  },
});
const times = Number(values.times);
if (!Number.isSafeInteger(times) || times < 1) {
  console.error(`--times ${values.times}: must be a whole number of at least 1`);
  process.exit(2);
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TABLE = fileURLToPath(new URL('./fault-table.mjs', import.meta.url));

/** Keeps one core busy until its parent is gone. */
const BUSY_LOOP = `
  process.on('disconnect', () => process.exit());
  const spin = () => {
    const end = Date.now() + 50;
    while (Date.now() < end);
    setImmediate(spin);
  };
  spin();
`;

process.env['FAULTS_LONG'] = values.long ? '1' : '0';
const startedAt = performance.now();
const load = values.load ? [startLoad(), startLoad()] : [];
let isGreen = true;
for (let run = 1; run <= times && isGreen; run += 1) {
  const title = `run ${run} of ${times}${values.load ? ', under load' : ''}`;
  const reporters = [[TABLE, { title, isShort: run > 1 }]];
  const tests = ['test/faults/', 'test/processes/', 'test/soak/scale'];
  // Fewer than in `npm test`: what is measured is the fault, not the other tests.
  const argv = { _: tests, $0: 'jest', reporters, maxWorkers: '100%' };
  isGreen = (await runCLI(argv, [ROOT])).results.success;
}
for (const child of load) child.kill();
const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
console.log(`${isGreen ? 'all green' : 'stopped at the first failure'} after ${seconds} s`);
process.exitCode = isGreen ? 0 : 1;

function startLoad() {
  const child = spawn(process.execPath, ['-e', BUSY_LOOP], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  child.unref();
  child.channel?.unref();
  return child;
}
