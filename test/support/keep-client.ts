import type { Redis } from 'ioredis';
import { afterTest } from './after-test.js';

/** Ignores the errors of a client of any ioredis version, and closes it after the test. */
export function keepClient<C extends { on: (...args: never[]) => unknown; disconnect(): void }>(
  client: C,
): C {
  (client as unknown as Redis).on('error', () => {});
  afterTest(() => client.disconnect());
  return client;
}
