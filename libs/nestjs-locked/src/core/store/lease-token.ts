import { randomBytes } from 'node:crypto';
import type { HeldMode, KeyTerms } from '../lock-mode.js';

/** How many hex digits a process id has. The scripts find the inbox of a token's process by this length. */
export const PROCESS_ID_DIGITS = 32;

/**
 * The token of one tenure: the id of the requesting process, a colon and a number that rises with each of its tokens:
 * the time when it was introduced, in microseconds since 1970. An `s` follows if the lease is shared with other
 * readers, or `p2/5` if it takes 2 of 5 permits, and then, if the requesting call has a label, a colon and the label.
 * So operators learn all of it without further commands, and other processes what the waiter wants. The number begins
 * with a zero if no messages reached the process when it introduced the token, so that it polls for its turn. Our lock
 * keys in Redis have no other value, except for several holders (`shared-value`), so the format also distinguishes our
 * holders from foreign ones.
 */
const LEASE_TOKEN = new RegExp(
  `^([0-9a-f]{${PROCESS_ID_DIGITS}}):(\\d+)(s|p(\\d+)/(\\d+)|)(?::(.*))?$`,
  's',
);

/** What would end the token in a message of the scripts or break a line, and the escape character itself. */
const ESCAPED = /[%\s]/g;

/** @returns an id unique among all processes and their lock services */
export function newProcessId(): string {
  return randomBytes(PROCESS_ID_DIGITS / 2).toString('hex');
}

/**
 * @param number the time, or one more than that of the token before
 * @param looksItself whether no messages reach the process now
 * @param label of the call that requests the lease
 * @param terms how the key is wanted. @default alone
 */
export function leaseToken(
  processId: string,
  number: number,
  looksItself = false,
  label?: string,
  terms?: KeyTerms,
): string {
  const token = `${processId}:${looksItself ? '0' : ''}${number}${markOf(terms)}`;
  return label === undefined ? token : `${token}:${encodedLabel(label)}`;
}

function markOf({ mode, weight, permits }: KeyTerms = { mode: 'exclusive' }): string {
  if (mode === 'permit') return `p${weight}/${permits}`;
  return mode === 'shared' ? 's' : '';
}

/** @returns how the lease of this token has its key; undefined if the string is not a token of ours */
export function termsOf(token: string): KeyTerms | undefined {
  const [, , , mark, weight, permits] = LEASE_TOKEN.exec(token) ?? [];
  if (mark === undefined) return undefined;
  if (mark === '') return { mode: 'exclusive' };
  if (mark === 's') return { mode: 'shared' };
  return { mode: 'permit', weight: Number(weight), permits: Number(permits) };
}

/** @returns the mode of these terms */
export function modeOf(token: string): HeldMode | undefined {
  return termsOf(token)?.mode;
}

/** Whether this process has, or may have, made the token. */
export function isTokenOf(processId: string, token: string): boolean {
  return token.startsWith(`${processId}:`);
}

/** @returns the process that made the token; undefined if the string is not a token of ours */
export function processIdOf(token: string): string | undefined {
  return LEASE_TOKEN.exec(token)?.[1];
}

/**
 * @returns when its process introduced the token, by the clock of that process; undefined if it is not one of ours, or
 * if another client has made it up, with a number that is no time
 */
export function introducedAt(token: string): Date | undefined {
  const micros = LEASE_TOKEN.exec(token)?.[2];
  if (micros === undefined) return undefined;
  const time = new Date(Number(micros) / 1_000);
  return Number.isNaN(time.getTime()) ? undefined : time;
}

/** @returns the label of the call that requested the lease, if it has one */
export function labelOf(token: string): string | undefined {
  const label = LEASE_TOKEN.exec(token)?.[6];
  try {
    return label && decodeURIComponent(label);
  } catch {
    return label; // written by another client
  }
}

/** Nearly every label: that of a method. */
const PLAIN_LABEL = /^[\w.]*$/;

/** Redis would return another token for half a surrogate pair. */
function encodedLabel(label: string): string {
  if (PLAIN_LABEL.test(label)) return label;
  return label
    .replace(/\p{Cs}/gu, '\uFFFD')
    .replace(ESCAPED, (character) => encodeURIComponent(character));
}
