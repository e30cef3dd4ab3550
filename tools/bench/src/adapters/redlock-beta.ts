import type { Adapter } from './adapter.js';
import { openRedlock } from './redlock-like.js';

export const redlockBeta: Adapter = {
  id: 'redlock',
  name: 'redlock 5 beta',
  kind: 'peer',
  settings:
    'redlock 5.0.0-beta.2, `acquire` and `release`, `retryCount: -1`. `retryDelay` and `retryJitter` are 20 instead of 200 and 100: of 1, 2, 5, 10 and 20 ms, the fastest without work under the lock.',
  open: openRedlock(async (clients, settings) => {
    const { default: Redlock } = await import('redlock');
    return new Redlock(clients, settings);
  }),
};
