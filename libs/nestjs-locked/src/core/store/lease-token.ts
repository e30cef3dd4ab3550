/**
 * The token of one tenure: the id of the process that asks, which has 32 hex digits, then a colon and a count. In
 * Redis, the key of a lock that is ours has no other value, so the format also tells our holders from foreign ones.
 */
const LEASE_TOKEN = /^([0-9a-f]{32}):\d+$/;

export function leaseToken(processId: string, count: number): string {
  return `${processId}:${count}`;
}

/** Whether this process has made the token, or may have. */
export function isTokenOf(processId: string, token: string): boolean {
  return token.startsWith(`${processId}:`);
}

/** @returns the process that made the token; undefined if the text is not a token of ours */
export function processIdOf(token: string): string | undefined {
  return LEASE_TOKEN.exec(token)?.[1];
}
