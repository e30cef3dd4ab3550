import { type Adapter, holdBy, LEASE_MS } from './adapter.js';
import { connect } from './connect.js';

const SETTINGS = { retryCount: -1, retryDelay: 20, retryJitter: 20 };

export const sesamecareRedlock: Adapter = {
  id: 'sesamecare',
  name: '@sesamecare-oss/redlock',
  kind: 'peer',
  settings:
    '@sesamecare-oss/redlock 1.4.0, `acquire` and `release`, with the settings of redlock 5 beta, from which it ' +
    'descends.',
  async open(url) {
    const redis = await connect(url);
    const { Redlock } = await import('@sesamecare-oss/redlock');
    const redlock = new Redlock([redis], SETTINGS);
    redlock.on('error', () => {}); // it also reports here that a key is taken
    return {
      hold: holdBy(async (key) => {
        const lock = await redlock.acquire([key], LEASE_MS);
        return () => lock.release();
      }),
      close: async () => redis.disconnect(),
    };
  },
};
