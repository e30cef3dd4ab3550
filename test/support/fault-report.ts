import { it } from '@jest/globals';
import { appendFileSync } from 'node:fs';
import { beside } from './after-test.js';

/** One line of the file named by the environment variable FAULTS_REPORT. */
export interface FaultRecord {
  readonly test: string;
  readonly what: string;
  readonly must: string;
  readonly measured: string;
}

/** Records a measurement of the current test, for example `measure('entered after', 12, 'ms')`. */
export type Measure = (what: string, figure: number | string, unit?: string) => void;

type Fault = (measure: Measure) => Promise<void>;

/**
 * Declares the test of one fault, and reports its measurements.
 *
 * @param limitMs the time limit of a test that takes minutes @default the limit of all tests
 */
export function fault(what: string, must: string, run: Fault, limitMs?: number): void {
  it(titleOf(what, must), () => recorded(what, must, run), limitMs);
}

/** Declares such a test to run concurrently with the others of its `describe`, because it waits more than it works. */
export function concurrentFault(what: string, must: string, run: Fault): void {
  it.concurrent(
    titleOf(what, must),
    beside(() => recorded(what, must, run)),
  );
}

function titleOf(what: string, must: string): string {
  return `${what}: ${must}`;
}

async function recorded(what: string, must: string, run: Fault): Promise<void> {
  const figures: string[] = [];
  try {
    await run((name, figure, unit = '') => {
      figures.push(`${name} ${readable(figure)}${unit === '' ? '' : ` ${unit}`}`);
    });
  } finally {
    record({ test: titleOf(what, must), what, must, measured: figures.join(', ') });
  }
}

function record(row: FaultRecord): void {
  const file = process.env['FAULTS_REPORT'];
  if (file) appendFileSync(file, `${JSON.stringify(row)}\n`);
}

function readable(figure: number | string): string {
  if (typeof figure === 'string') return figure;
  return Math.abs(figure) >= 100 ? String(Math.round(figure)) : String(+figure.toPrecision(2));
}
