import { type Adapter, holdBy, LEASE_MS } from './adapter.js';
import { connect } from './connect.js';

const SETTINGS = { retryCount: -1, retryDelay: 20, retryJitter: 20 };

/** What redlock 5 and the library that descends from it have in common. */
interface RedlockLike {
  on(event: 'error', listen: (error: Error) => void): unknown;
  acquire(resources: string[], durationMs: number): Promise<{ release(): Promise<unknown> }>;
}

type Client = Awaited<ReturnType<typeof connect>>;

/** Opens an adapter for it. @param make makes it for a client, with the settings that both have here */
export function openRedlock(
  make: (clients: Client[], settings: typeof SETTINGS) => Promise<RedlockLike>,
): Adapter['open'] {
  return async (url) => {
    const redis = await connect(url);
    const redlock = await make([redis], SETTINGS);
    redlock.on('error', () => {}); // it also reports here that a key is taken
    return {
      hold: holdBy(async (key) => {
        const lock = await redlock.acquire([key], LEASE_MS);
        return () => lock.release();
      }),
      close: async () => redis.disconnect(),
    };
  };
}
