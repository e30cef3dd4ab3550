import type { LockHolder, LockWait } from '../core/lock-info.js';
import { tokensIn } from '../core/store/shared-value.js';
import { shownDuration } from './duration.js';
import type { LockView } from './lock-view.js';
import { shownJson, shownText } from './shown-text.js';
import { tableOf } from './table.js';

const NAMES = ['KEY', 'HOLDER', 'CALL', 'SINCE', 'FOR', 'LEASE', 'WAITING'];

/** The columns whose texts may be long. */
const CUT = [0, 1, 2];

const DAY_MS = 86_400_000;

/** The most wanted first, and otherwise by key. */
export function inOrder(locks: readonly LockView[]): LockView[] {
  const byKey = (a: LockView, b: LockView): number => (a.key < b.key ? -1 : 1);
  return locks.toSorted((a, b) => b.waiters - a.waiters || byKey(a, b));
}

/** @param columns of the terminal; Infinity: nothing is cut @returns lines */
export function lockTable(locks: readonly LockView[], columns: number): string[] {
  const now = Date.now();
  const rows = locks.map((lock) => {
    const heldMs = lock.since && Math.max(0, now - lock.since.getTime());
    return [
      shownText(lock.key),
      shownHolder(lock),
      shownText(callOf(lock)),
      lock.since === undefined ? '' : shownTime(lock.since, now),
      heldMs === undefined ? '' : shownDuration(heldMs),
      shownLease(lock),
      String(lock.waiters),
    ];
  });
  return tableOf(NAMES, rows, columns, CUT);
}

/** One lock, with all that is known. @returns lines */
export function lockLines(lock: LockView): string[] {
  const { key, leaseId, mode, holders, since, waiters } = lock;
  const [holder] = leasesOf(lock) > 1 ? [] : holders;
  const call = callOf(lock);
  const ago = since === undefined ? 0 : Math.max(0, Date.now() - since.getTime());
  const lines: [name: string, text: string | undefined][] = [
    ['key', shownText(key)],
    ['holder', shownHolder(lock)],
    ['mode', mode],
    ['process', holder?.processId],
    ['call', call === '' ? undefined : shownText(call)],
    ['since', since && `${since.toISOString()}, ${shownDuration(ago)} ago`],
    ['lease', shownLease(lock)],
    ['lease id', leaseId],
    ['waiting', `${waiters} ${waiters === 1 ? 'process' : 'processes'}`],
    ...eachOf(lock).map((it): [string, string] => [mode === 'permit' ? 'permit' : 'reader', it]),
  ];
  return lines.flatMap(([name, text]) => (text === undefined ? [] : `${name.padEnd(9)}${text}`));
}

/** Each of several readers, or permits. */
function eachOf(lock: LockView): string[] {
  const { holders } = lock;
  const leases = leasesOf(lock);
  if (leases < 2) return [];
  const shown = holders.map((holder) => {
    const call = holder.label === undefined ? '' : `, ${shownText(holder.label)}`;
    return `${processText(holder)}${call}${permitText(holder)}`;
  });
  return leases > shown.length ? [...shown, `and ${leases - shown.length} more`] : shown;
}

/** Which permit it is, if it is one. */
function permitText({ slot, weight = 1 }: LockHolder): string {
  if (slot === undefined) return '';
  return weight === 1 ? `, slot ${slot}` : `, slot ${slot}, weight ${weight}`;
}

/** A lock as JSON on one line; a lease that never expires has null. */
export function lockJson(lock: LockView | undefined, more: object = {}): string {
  if (lock === undefined) return 'null';
  const { key, state, mode = null, leaseId, holder = null, holders, since = null } = lock;
  const { waiters } = lock;
  const remainingMs = lock.remainingMs === Infinity ? null : lock.remainingMs;
  const held = { state, mode, leaseId, holder, holders, since, remainingMs };
  const shown = { ...more, key, ...held, waiters };
  return shownJson(JSON.stringify(shown));
}

/** @param columns of the terminal; Infinity: nothing is cut @returns lines */
export function waitTable(
  waits: readonly LockWait[],
  inRings: ReadonlySet<LockWait>,
  columns: number,
): string[] {
  const now = Date.now();
  const rows = waits.map((wait) => [
    shownText(wait.label ?? ''),
    processText(wait),
    wait.holds.map(shownText).join(' '),
    shownText(wait.key),
    shownDuration(Math.max(0, now - wait.since.getTime())),
    inRings.has(wait) ? 'deadlock' : '',
  ]);
  return tableOf(['CALL', 'PROCESS', 'HOLDS', 'WAITS FOR', 'FOR', ''], rows, columns, [0, 1, 2, 3]);
}

/** A wait as JSON on one line. */
export function waitJson(wait: LockWait, isDeadlock: boolean): string {
  return shownJson(JSON.stringify({ ...wait, label: wait.label ?? null, isDeadlock }));
}

export function shownHolder(lock: Pick<LockView, 'state' | 'mode' | 'holder' | 'value'>): string {
  const { state, mode, holder } = lock;
  if (holder === undefined) return `(${state})`;
  const leases = leasesOf(lock);
  if (leases > 1) return `${leases} ${mode === 'permit' ? 'permits' : 'readers'}`;
  if (mode === 'permit') return `${processText(holder)}, with a permit`;
  return mode === 'shared' ? `${processText(holder)}, reads` : processText(holder);
}

/** The call that has the lock, if it is one. */
export function callOf(lock: Pick<LockView, 'holder' | 'value'>): string {
  return leasesOf(lock) > 1 ? '' : (lock.holder?.label ?? '');
}

/** How many leases have the lock: one, or those of all that have it together. */
function leasesOf({ value }: Pick<LockView, 'value'>): number {
  return tokensIn(value).length;
}

function processText({ host, pid, processId }: Omit<LockHolder, 'label'>): string {
  return host === undefined ? `process ${processId}` : `${shownText(host)} pid ${pid}`;
}

/** The time of day in UTC, with the date if that was no less than a day ago. */
function shownTime(time: Date, now: number): string {
  const text = time.toISOString();
  const isOfToday = now - time.getTime() < DAY_MS;
  return isOfToday ? `${text.slice(11, 19)}Z` : `${text.slice(0, 16)}Z`;
}

function shownLease({ remainingMs }: LockView): string {
  return remainingMs === Infinity ? 'no end' : shownDuration(remainingMs);
}
