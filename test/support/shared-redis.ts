import { beforeAll } from '@jest/globals';
import { fetchAgain } from './fetch-again.js';

/**
 * The Redis server of this test run. Other specs share it, so use unique keys. Tests that need more than keys of their
 * own use `useRedisServer`. Call it where `beforeAll` may be called.
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
      if (url === undefined) throw new Error('The URL of Redis is not known before beforeAll');
      return url;
    },
  };
}
