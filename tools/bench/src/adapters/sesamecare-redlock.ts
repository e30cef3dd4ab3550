import type { Adapter } from './adapter.js';
import { openRedlock } from './redlock-like.js';

export const sesamecareRedlock: Adapter = {
  id: 'sesamecare',
  name: '@sesamecare-oss/redlock',
  kind: 'peer',
  settings: '@sesamecare-oss/redlock 1.4.0, set like redlock 5 beta.',
  open: openRedlock(async (clients, settings) => {
    const { Redlock } = await import('@sesamecare-oss/redlock');
    return new Redlock(clients, settings);
  }),
};
