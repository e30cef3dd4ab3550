import { callOf, lockJson, shownHolder } from './lock-texts.js';
import type { LockView } from './lock-view.js';
import { shownText } from './shown-text.js';

/** What has happened to a key between two looks; `held`: it was held at the first one. */
type Change = 'held' | 'taken' | 'freed' | 'waiters';

/**
 * One line for each key that was taken, by somebody or by somebody else, was freed, or has more or fewer waiters than
 * before. A renewal is no change.
 * @param before undefined at the first look
 */
export function lockChanges(
  before: readonly LockView[] | undefined,
  now: readonly LockView[],
  json: boolean,
): string[] {
  const old = new Map(before?.map((lock) => [lock.key, lock]));
  const at = new Date().toISOString();
  const line = (change: Change, lock: LockView): string =>
    json ? lockJson(lock, { at, change }) : changeText(at, change, lock);
  const changed = now.flatMap((lock) => {
    const earlier = old.get(lock.key);
    old.delete(lock.key);
    if (earlier?.value !== lock.value) return line(before === undefined ? 'held' : 'taken', lock);
    return earlier.waiters === lock.waiters ? [] : line('waiters', lock);
  });
  return [...[...old.values()].map((lock) => line('freed', lock)), ...changed];
}

function changeText(at: string, change: Change, lock: LockView): string {
  const label = callOf(lock);
  const call = label === '' ? '' : ` ${shownText(label)}`;
  return `${at} ${change.padEnd(7)} ${shownText(lock.key)}: ${shownHolder(lock)}${call}, ${lock.waiters} waiting`;
}
