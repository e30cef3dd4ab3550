/**
 * Runs every test that takes Redis, its connections or the locking processes away, and prints what was measured:
 *
 *     npm run faults
 *     npm run faults -- --times 10 --load    ten times in a row, with two busy processes beside it
 *     npm run faults -- --long               a million tries, a wait of minutes, 10,000 hand-overs
 *
 * What takes minutes (a wait of three of them, a million tries) is done in full here, and shorter in `npm test`.
 * Stops at the first failure. The exit code is 0 only when every run was green.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

const COLUMNS = [
  { title: 'what happens', width: 40 },
  { title: 'what must happen', width: 40 },
  { title: 'measured', width: 46 },
  { title: '', width: 4 },
];

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

const startedAt = performance.now();
const load = values.load ? [startLoad(), startLoad()] : [];
let failed = false;
for (let run = 1; run <= times && !failed; run += 1) {
  const { rows, log, ms } = await runTests();
  const skipped = rows.filter((row) => row.skipped);
  const failures = rows.filter((row) => !row.passed && !row.skipped);
  failed = failures.length > 0 || rows.length === skipped.length;
  if (run === 1 || failed) printTable(rows);
  if (failed) console.log(`\n${log}`);
  console.log(
    `run ${run} of ${times}${values.load ? ', under load' : ''}: ` +
      `${rows.length - failures.length - skipped.length} passed, ${failures.length} failed, ` +
      `${skipped.length > 0 ? `${skipped.length} skipped, ` : ''}${seconds(ms)}`,
  );
}
for (const child of load) child.kill();
console.log(
  `${failed ? 'stopped at the first failure' : 'all green'} after ${seconds(performance.now() - startedAt)}`,
);
process.exitCode = failed ? 1 : 0;

async function runTests() {
  const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-faults-'));
  const report = join(folder, 'report.jsonl');
  const resultFile = join(folder, 'result.json');
  const from = performance.now();
  const log = await runJest(resultFile, report);
  const records = new Map(readRecords(report).map((record) => [record.test, record]));
  const rows = readResult(resultFile).flatMap((file) => rowsOf(file, records));
  rmSync(folder, { recursive: true, force: true });
  return { rows, log, ms: performance.now() - from };
}

/** @returns everything that jest printed */
function runJest(resultFile, report) {
  const jest = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--experimental-vm-modules',
      createRequire(import.meta.url).resolve('jest/bin/jest'),
      ...['--json', `--outputFile=${resultFile}`, 'test/faults/', 'test/processes/'],
    ],
    {
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, FAULTS_REPORT: report, FAULTS_LONG: values.long ? '1' : '0' },
    },
  );
  // Jest's workers outlive a jest that was ended by a signal, so the whole process group gets it.
  const end = (signal) => {
    process.kill(-jest.pid, signal);
    for (const child of load) child.kill();
    process.exit(1);
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.once(signal, end);
  let log = '';
  jest.stderr.on('data', (data) => (log += data));
  return new Promise((resolve) => {
    jest.on('close', () => {
      for (const signal of signals) process.off(signal, end);
      resolve(log);
    });
  });
}

/** A file that failed although none of its tests did is one failed row. */
function rowsOf(file, records) {
  const rows = rowsOfTests(file.assertionResults, records);
  if (file.status !== 'failed' || rows.some((row) => !row.passed && !row.skipped)) return rows;
  const must = rows.length === 0 ? 'can be loaded' : 'nothing goes wrong beside its tests';
  return [...rows, { what: file.name, must, measured: '', passed: false }];
}

function rowsOfTests(tests, records) {
  return tests.map((test) => {
    const record = records.get(test.fullName);
    const took = `took ${seconds(test.duration ?? 0)}`;
    const passed = test.status === 'passed';
    const skipped = test.status === 'pending';
    if (record) return { ...record, measured: record.measured || took, passed, skipped };
    const [what, ...must] = test.title.split(': ');
    return {
      what: [...test.ancestorTitles, what].join(', '),
      must: must.join(': '),
      measured: skipped ? '' : took,
      passed,
      skipped,
    };
  });
}

function readRecords(file) {
  try {
    return readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  } catch {
    return [];
  }
}

function readResult(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).testResults;
  } catch {
    return []; // jest was ended before it could write
  }
}

function printTable(rows) {
  const ruler = COLUMNS.map(({ width }) => '-'.repeat(width)).join('-|-');
  printRow(COLUMNS.map(({ title }) => title));
  for (const { what, must, measured, passed, skipped } of rows) {
    console.log(ruler);
    printRow([what, must, measured, passed ? 'pass' : skipped ? 'skip' : 'FAIL']);
  }
  console.log(ruler);
}

function printRow(cells) {
  const columns = cells.map((cell, i) => wrap(cell, COLUMNS[i].width));
  const height = Math.max(...columns.map(({ length }) => length));
  for (let line = 0; line < height; line += 1) {
    const parts = columns.map((lines, i) => (lines[line] ?? '').padEnd(COLUMNS[i].width));
    console.log(parts.join(' | ').trimEnd());
  }
}

function wrap(text, width) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line === '') lines[lines.length - 1] = word;
    else if (line.length + 1 + word.length <= width) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}

function startLoad() {
  const child = spawn(process.execPath, ['-e', BUSY_LOOP], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  child.unref();
  child.channel?.unref();
  return child;
}

function seconds(ms) {
  return `${(ms / 1_000).toFixed(1)} s`;
}
