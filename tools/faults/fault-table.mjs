/**
 * Prints the fault tests as a table of what happens, what must happen and what was measured. No reporter of jest's can:
 * a test can tell it no figures, so they come by a file whose name the tests have from FAULTS_REPORT.
 */
import { cleanUpAtExit } from 'dev-servers';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const COLUMNS = [
  { title: 'what happens', width: 40 },
  { title: 'what must happen', width: 40 },
  { title: 'measured', width: 46 },
  { title: '', width: 4 },
];

export default class FaultTableReporter {
  #title;
  #isShort;
  #hasTested = false;
  #folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-faults-'));
  #report = join(this.#folder, 'report.jsonl');
  #cancelCleanUp = cleanUpAtExit({ kind: 'folder', path: this.#folder });

  /** @param options `title` begins the last line; with `isShort` the table is printed only if something failed */
  constructor(_globalConfig, { title = 'faults', isShort = false } = {}) {
    this.#title = title;
    this.#isShort = isShort;
    process.env['FAULTS_REPORT'] = this.#report; // jest's workers, which are started later, inherit it
  }

  onRunComplete(_contexts, { testResults, startTime }) {
    const records = new Map(readRecords(this.#report).map((record) => [record.test, record]));
    rmSync(this.#folder, { recursive: true });
    this.#cancelCleanUp();
    const rows = testResults.flatMap((file) => rowsOf(file, records));
    const [passed, failed, skipped] = ['passed', 'failed', 'pending'].map(
      (status) => rows.filter((row) => row.status === status).length,
    );
    this.#hasTested = passed + failed > 0;
    if (!this.#isShort || failed > 0) printTable(rows);
    for (const { failureMessage } of testResults) {
      if (failureMessage) console.log(`\n${failureMessage}`);
    }
    console.log(
      `${this.#title}: ${passed} passed, ${failed} failed, ` +
        `${skipped > 0 ? `${skipped} skipped, ` : ''}${seconds(Date.now() - startTime)}`,
    );
  }

  /** Asked by jest when the run is complete: an error makes it fail. */
  getLastError() {
    return this.#hasTested ? undefined : new Error('everything was skipped');
  }
}

function readRecords(file) {
  try {
    return readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  } catch {
    return []; // nothing was measured
  }
}

/** A file that failed although none of its tests did is one failed row. */
function rowsOf({ testResults, testFilePath, failureMessage }, records) {
  const rows = testResults.map((test) => rowOf(test, records.get(test.title)));
  if (!failureMessage || rows.some(({ status }) => status === 'failed')) return rows;
  const must = rows.length === 0 ? 'can be loaded' : 'nothing goes wrong beside its tests';
  return [...rows, { what: testFilePath, must, measured: '', status: 'failed' }];
}

function rowOf({ ancestorTitles, title, status, duration }, record) {
  const took = status === 'pending' ? '' : `took ${seconds(duration ?? 0)}`;
  if (record) return { ...record, measured: record.measured || took, status };
  const [what, ...must] = title.split(': ');
  return {
    what: [...ancestorTitles, what].join(', '),
    must: must.join(': '),
    measured: took,
    status,
  };
}

function printTable(rows) {
  const ruler = COLUMNS.map(({ width }) => '-'.repeat(width)).join('-|-');
  const words = { passed: 'pass', pending: 'skip' };
  printRow(COLUMNS.map(({ title }) => title));
  for (const { what, must, measured, status } of rows) {
    console.log(ruler);
    printRow([what, must, measured, words[status] ?? 'FAIL']);
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

function seconds(ms) {
  return `${(ms / 1_000).toFixed(1)} s`;
}
