import { expect, it } from '@jest/globals';
import { appendFileSync } from 'node:fs';

/** One line of the file that the environment variable FAULTS_REPORT names. */
export interface FaultRecord {
  /** The full name of the test, as jest reports it. */
  readonly test: string;
  readonly what: string;
  readonly must: string;
  readonly measured: string;
}

/** Notes a figure of the present test, for example `measure('entered after', 12, 'ms')`. */
export type Measure = (what: string, figure: number | string, unit?: string) => void;

/**
 * A test of one row of the table of faults, which says what it measured.
 *
 * @param limitMs for what takes minutes; otherwise that of all tests
 */
export function fault(
  what: string,
  must: string,
  run: (measure: Measure) => Promise<void>,
  limitMs?: number,
): void {
  it(
    `${what}: ${must}`,
    async () => {
      const figures: string[] = [];
      try {
        await run((name, figure, unit = '') => {
          figures.push(`${name} ${readable(figure)}${unit === '' ? '' : ` ${unit}`}`);
        });
      } finally {
        record({
          test: expect.getState().currentTestName ?? '',
          what,
          must,
          measured: figures.join(', '),
        });
      }
    },
    limitMs,
  );
}

function record(row: FaultRecord): void {
  const file = process.env['FAULTS_REPORT'];
  if (file) appendFileSync(file, `${JSON.stringify(row)}\n`);
}

function readable(figure: number | string): string {
  if (typeof figure === 'string') return figure;
  return Math.abs(figure) >= 100 ? String(Math.round(figure)) : String(+figure.toPrecision(2));
}
