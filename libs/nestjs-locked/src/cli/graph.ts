import { collectedWaits } from '../core/deadlocks/collected-waits.js';
import type { HolderQuestions } from '../core/deadlocks/holder-questions.js';
import { waitsInRings } from '../core/deadlocks/rings.js';
import type { Asked } from './command-line.js';
import { EXIT_CODE, type ExitCode } from './exit-code.js';
import type { LockReader } from './lock-reader.js';
import { waitJson, waitTable } from './lock-texts.js';
import { terminalSize } from './terminal-size.js';

/**
 * Prints which calls hold a lock that others want, and wait for another one themselves.
 * @throws LockKeyError · LockStoreError
 */
export async function graph(
  reader: LockReader,
  questions: HolderQuestions,
  { pattern, json }: Asked<'graph'>,
): Promise<ExitCode> {
  const found = await collectedWaits(questions, await reader.list(pattern));
  const { silent } = found;
  const waits = found.waits.toSorted((a, b) => a.since.getTime() - b.since.getTime());
  const inRings = waitsInRings(waits);
  const { columns = Infinity } = terminalSize() ?? {};
  if (json) for (const wait of waits) console.log(waitJson(wait, inRings.has(wait)));
  else if (waits.length > 0) console.log(waitTable(waits, inRings, columns).join('\n'));
  if (silent > 0) {
    const locks = silent === 1 ? 'a lock that others want' : `${silent} locks that others want`;
    console.error(
      `Unknown for ${locks}: the process has not answered within a second. It is blocked or has died, or its version of nestjs-locked is older.`,
    );
  } else if (waits.length === 0 && !json) {
    console.error('No call that holds a wanted lock waits for another one.');
  }
  return EXIT_CODE.done;
}
