import { randomBytes } from 'node:crypto';

/** How many hex digits a process id has. The scripts find the inbox of a token's process by this length. */
export const PROCESS_ID_DIGITS = 32;

/**
 * The token of one tenure: the id of the process that asks, then a colon and a count. The count begins with a zero if
 * no message reached the process when it introduced the token, so that it looks for itself whether it is its turn. In
 * Redis, the key of a lock that is ours has no other value, so the format also tells our holders from foreign ones.
 */
const LEASE_TOKEN = new RegExp(`^([0-9a-f]{${PROCESS_ID_DIGITS}}):\\d+$`);

/** @returns an id that no other process has, nor another lock service of this one */
export function newProcessId(): string {
  return randomBytes(PROCESS_ID_DIGITS / 2).toString('hex');
}

/** @param looksItself no message reaches the process now */
export function leaseToken(processId: string, count: number, looksItself = false): string {
  return `${processId}:${looksItself ? '0' : ''}${count}`;
}

/** Whether this process has made the token, or may have. */
export function isTokenOf(processId: string, token: string): boolean {
  return token.startsWith(`${processId}:`);
}

/** @returns the process that made the token; undefined if the text is not a token of ours */
export function processIdOf(token: string): string | undefined {
  return LEASE_TOKEN.exec(token)?.[1];
}
