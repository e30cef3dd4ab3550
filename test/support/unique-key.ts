import { randomBytes } from 'node:crypto';

/** A name that no other test uses, so that tests can share a server without emptying it. */
export function uniqueKey(name = 'key'): string {
  return `${name}-${randomBytes(6).toString('hex')}`;
}
