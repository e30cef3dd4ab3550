import { expect } from '@jest/globals';
import { LEASE_MS, type ScriptBench } from './script-bench.js';
import { queued } from './script-replies.js';

/** Checks that a value of another client has the lock alone, whatever this token of ours may share. */
export async function expectNotOurs(
  bench: ScriptBench,
  value: string,
  token: string,
): Promise<void> {
  await bench.redis.set(bench.lock, value, 'PX', LEASE_MS);
  expect((await bench.acquire(token, { nowait: true }))[0]).toBe('busy');
  expect(queued(await bench.acquire(token), token).foreign).toBe(1);
  expect(await bench.renew(token, 0)).toEqual([]);
  expect(await bench.release(token, 1)).toEqual(['lost']);
  expect(await bench.leave(token, { take: true })).toEqual(['left']);
  expect(await bench.redis.get(bench.lock)).toBe(value);
}
