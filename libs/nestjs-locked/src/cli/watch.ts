import { clearScreenDown, cursorTo } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import type { Asked } from './command-line.js';
import { lockChanges } from './lock-changes.js';
import type { LockReader } from './lock-reader.js';
import { inOrder, lockTable } from './lock-texts.js';
import type { LockView } from './lock-view.js';
import { cutTo, shownText } from './shown-text.js';
import { terminalSize } from './terminal-size.js';

/** The shortest pause between two looks. */
const PAUSE_MS = 1_000;

/** A look that takes long is followed by a pause of so many times as long. */
const PAUSES_PER_LOOK = 4;

/**
 * Looks again and again, until Ctrl-C.
 * @param address of Redis, for the headline
 * @throws LockKeyError · LockStoreError
 */
export async function watch(
  reader: LockReader,
  address: string,
  { pattern, json }: Pick<Asked<'watch'>, 'pattern' | 'json'>,
): Promise<void> {
  const { signal, ended } = endOfWatch();
  let before: readonly LockView[] | undefined;
  while (!signal.aborted) {
    const from = performance.now();
    const looking = reader.list(pattern);
    looking.catch(() => {}); // nobody awaits a look during which the signal aborts
    const locks = await Promise.race([looking, ended]);
    if (locks === undefined) return;
    const tookMs = performance.now() - from;
    const size = json ? undefined : terminalSize();
    if (size !== undefined) draw(locks, size, address, tookMs);
    else for (const line of lockChanges(before, locks, json)) console.log(line);
    before = locks;
    const pauseMs = Math.max(PAUSE_MS, PAUSES_PER_LOOK * tookMs);
    await pause(pauseMs, undefined, { signal }).catch(() => {});
  }
}

/** Ctrl-C, or the end of a service. */
function endOfWatch(): { signal: AbortSignal; ended: Promise<undefined> } {
  const controller = new AbortController();
  const ended = new Promise<undefined>((resolve) => {
    const end = (): void => {
      controller.abort();
      resolve(undefined);
    };
    process.once('SIGINT', end).once('SIGTERM', end);
  });
  return { signal: controller.signal, ended };
}

/** Draws the part that fits the terminal. */
function draw(
  locks: readonly LockView[],
  { columns, rows }: NonNullable<ReturnType<typeof terminalSize>>,
  address: string,
  tookMs: number,
): void {
  const { stdout } = process;
  const shown = inOrder(locks).slice(0, Math.max(1, rows - 4));
  const time = new Date().toISOString().slice(11, 19);
  const headline = `${time}Z  ${locks.length} held  ${shownText(address)}  read in ${Math.round(tookMs)} ms  Ctrl-C ends`;
  const hidden = locks.length - shown.length;
  const lines = [
    headline,
    ...lockTable(shown, columns),
    ...(hidden === 0 ? [] : [`and ${hidden} more`]),
  ];
  cursorTo(stdout, 0, 0);
  clearScreenDown(stdout);
  stdout.write(`${lines.map((line) => cutTo(columns, line)).join('\n')}\n`);
}
