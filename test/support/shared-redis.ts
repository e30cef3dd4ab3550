import { beforeAll } from '@jest/globals';
import { fetchAgain } from './fetch-again.js';

/**
 * The Redis of this test run. Use keys that nobody else uses: other specs share it. Whoever does more with a server
 * than that takes `useRedisServer`. Call it where `beforeAll` may be called.
 */
export function useRedis(): { readonly url: string } {
  let url: string | undefined;
  beforeAll(async () => {
    const response = await fetchAgain(`${process.env['TEST_SERVERS_URL']}/redis`);
    if (!response.ok) throw new Error(await response.text());
    url = await response.text();
  });
  return {
    get url() {
      if (url === undefined) throw new Error('Redis is there from beforeAll on, not before');
      return url;
    },
  };
}
