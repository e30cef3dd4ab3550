import type { Adapter } from './adapter.js';
import { inStrictOrder, nestjsLocked, withLinger, withoutAwaitedRelease } from './nestjs-locked.js';
import { rawFloor } from './raw-floor.js';
import { redisSemaphore } from './redis-semaphore.js';
import { redlockBeta } from './redlock-beta.js';
import { redlockUniversal } from './redlock-universal.js';
import { sesamecareRedlock } from './sesamecare-redlock.js';

export const PEERS: readonly Adapter[] = [
  redlockBeta,
  sesamecareRedlock,
  redisSemaphore,
  redlockUniversal,
];

export const ADAPTERS: readonly Adapter[] = [
  rawFloor,
  ...PEERS,
  nestjsLocked,
  withoutAwaitedRelease,
  withLinger,
  inStrictOrder,
];

/** @throws Error if there is none with this id */
export function adapterOf(id: string): Adapter {
  const found = ADAPTERS.find((adapter) => adapter.id === id);
  if (found === undefined) throw new Error(`There is no adapter '${id}'`);
  return found;
}
