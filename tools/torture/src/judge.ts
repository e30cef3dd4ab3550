import { cleanUpAtExit } from 'dev-servers';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Violation } from './checker/rules.js';
import { countBy } from './collections.js';

const PRINTED_PER_RULE = 8;

interface Judged {
  /** What was broken on purpose: the histories are of no interest then. */
  readonly breaks: readonly string[];
  readonly keep: boolean;
}

/**
 * Runs something and says what is wrong.
 *
 * @param run is given a folder for its files, which is kept if something was found
 * @returns the exit code
 */
export async function judge(
  { breaks, keep }: Judged,
  run: (folder: string) => Promise<readonly Violation[]>,
): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'torture-'));
  const cancelCleanUp = cleanUpAtExit({ kind: 'folder', path: folder });
  let isClean = false;
  try {
    const violations = await run(folder);
    isClean = violations.length === 0;
    printViolations(violations);
    const verdict = `${violations.length} violations; the history is in ${folder}`;
    console.log(isClean ? 'clean' : verdict);
    return isClean ? 0 : 1;
  } finally {
    const isOfInterest = !isClean && breaks.length === 0;
    if (!isOfInterest && !keep) rmSync(folder, { recursive: true, force: true });
    cancelCleanUp();
  }
}

/** Some violations of each rule, because one cause often breaks one rule many times. */
function printViolations(violations: readonly Violation[]): void {
  const left = countBy(violations, ({ rule }) => rule);
  for (const [rule, count] of Object.entries(left)) {
    const texts = violations.filter((violation) => violation.rule === rule);
    for (const { text } of texts.slice(0, PRINTED_PER_RULE)) {
      console.log(`VIOLATION of ${rule}: ${text}`);
    }
    if (count > PRINTED_PER_RULE) console.log(`${count - PRINTED_PER_RULE} more of ${rule}`);
  }
}
