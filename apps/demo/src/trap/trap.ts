import { setTimeout as sleep } from 'node:timers/promises';
import type { Cleanup } from '../cleanup.js';
import type { Progress } from '../progress.js';
import type { ShopDatabase } from '../shop-database.js';
import { POOL_SIZE, startTrapApp } from './trap-app.js';
import { Trial } from './trial.js';
import { nameOf, type Variant, VARIANTS } from './variant.js';

const CALLERS = 20;
const PIECES = 100;
const PROBE_EVERY_MS = 20;

/** What a trial needs; the name is unique for this run. */
interface Stage {
  readonly database: ShopDatabase;
  readonly redisUrl: string;
  readonly name: string;
  readonly cleanup: Cleanup;
}

/**
 * The trap is a lock inside a transaction: every caller keeps a connection while it waits. This tries all the ways to
 * use both.
 */
export async function playTrap(stage: Stage, progress: Progress): Promise<readonly Trial[]> {
  progress.say(
    `The trap: ${CALLERS} callers at once, a pool of ${POOL_SIZE}, and work that needs a second connection`,
  );
  const trials: Trial[] = [];
  for (const variant of VARIANTS) {
    const trial = await tryOut(variant, `${stage.name}_trap_${trials.length + 1}`, stage);
    progress.say(
      `  ${nameOf(variant)}: ${trial.succeeded} of ${CALLERS} succeeded in ` +
        `${trial.seconds.toFixed(1)} s, the stock is ${trial.isExact ? 'exact' : 'WRONG'}`,
    );
    trials.push(trial);
  }
  return trials;
}

async function tryOut(
  variant: Variant,
  productId: string,
  { database, redisUrl, cleanup }: Stage,
): Promise<Trial> {
  await database.putOnSale(productId, PIECES);
  const app = await cleanup.use(
    () => startTrapApp(variant, database.url, redisUrl),
    (started) => started.close(),
  );

  const orders = Array.from({ length: CALLERS }, () => ({ productId, runs: 0 }));
  const startedAt = performance.now();
  const settled = Promise.allSettled(orders.map((order) => app.place(order)));
  const probed = longestWait(() => app.unrelatedQuery(), settled);
  const answers = await settled;
  const seconds = (performance.now() - startedAt) / 1000;
  const worstUnrelatedMs = await probed;
  await app.close();

  const errorCodes = answers.flatMap((answer) =>
    answer.status === 'rejected' ? [errorCode(answer.reason)] : [],
  );
  return new Trial(
    variant,
    PIECES,
    CALLERS - errorCodes.length,
    errorCodes,
    orders.reduce((sum, { runs }) => sum + Math.max(0, runs - 1), 0),
    worstUnrelatedMs,
    await database.books(productId),
    seconds,
  );
}

/** Asks again and again until the work is done. An error is an answer as well. @returns milliseconds */
async function longestWait(ask: () => Promise<unknown>, work: Promise<unknown>): Promise<number> {
  let isDone = false;
  void work.then(() => (isDone = true));
  let longestMs = 0;
  while (!isDone) {
    const startedAt = performance.now();
    await ask().catch(() => undefined);
    longestMs = Math.max(longestMs, performance.now() - startedAt);
    await sleep(PROBE_EVERY_MS);
  }
  return longestMs;
}

/** What went wrong, in one word: the `code` of the locks or of PostgreSQL, if there is one. */
function errorCode(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ('code' in error && typeof error.code === 'string') return error.code;
  // The pool of pg has no code for it.
  if (error.message.includes('timeout exceeded when trying to connect')) return 'no connection';
  return error.name;
}
