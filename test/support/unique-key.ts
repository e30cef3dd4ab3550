import { randomBytes } from 'node:crypto';

/** A name that no other test uses, so that tests can share a server. */
export function uniqueKey(name = 'key'): string {
  return `${name}-${randomBytes(6).toString('hex')}`;
}
