import type { Redis } from 'ioredis';
import { afterTest } from './after-test.js';

/** A client of the application, of whichever ioredis, whose errors are nobody's concern. Closed after the test. */
export function keepClient<C extends { on: (...args: never[]) => unknown; disconnect(): void }>(
  client: C,
): C {
  (client as unknown as Redis).on('error', () => {});
  afterTest(() => client.disconnect());
  return client;
}
