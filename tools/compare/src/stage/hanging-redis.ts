import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome } from '../scenario.js';
import type { RedisServer } from './redis.js';

export const LEASE_MS = 2_000;
const WATCHED_MS = 8_000;

/** Redis stops answering 100 ms after the lock was taken: when is the holder told? */
export async function watchHolder(server: RedisServer, isTold: () => boolean): Promise<Outcome> {
  await sleep(100);
  server.pause();
  const from = performance.now();
  while (!isTold() && performance.now() - from < WATCHED_MS) await sleep(10);
  const ms = performance.now() - from;
  const seconds = (ms / 1_000).toFixed(1);
  if (!isTold()) {
    return {
      holds: false,
      figure: `no abort in ${WATCHED_MS / 1_000} s`,
      words: `${(WATCHED_MS - LEASE_MS) / 1_000} s after the lock expired, the holder had not been told.`,
    };
  }
  // The last renewal may have been just before Redis stopped.
  const isInTime = ms <= LEASE_MS + 200;
  return {
    holds: isInTime,
    figure: `abort after ${seconds} s`,
    words: isInTime
      ? 'The holder was told before anybody else could take the lock.'
      : `The holder was told ${((ms - LEASE_MS) / 1_000).toFixed(1)} s after its lock had expired.`,
  };
}
