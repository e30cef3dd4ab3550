/** What can be done with the lock key alone, while the slot of a lock moves to another node of a cluster. */
import { describe, expect, it } from '@jest/globals';
import type { RedisScript } from '../../../libs/nestjs-locked/src/redis/scripts/redis-script.js';
import { shortReleaseScript } from '../../../libs/nestjs-locked/src/redis/scripts/short-release.lua.js';
import { shortRenewScript } from '../../../libs/nestjs-locked/src/redis/scripts/short-renew.lua.js';
import { runScript } from '../../support/run-script.js';
import type { ScriptBench } from '../../support/script-bench.js';
import { useScripts } from '../../support/use-scripts.js';

const { heldBench } = useScripts();

const LONG_MS = 3_000_000;

const run = (bench: ScriptBench, script: RedisScript, ...args: (string | number)[]) =>
  runScript(bench.redis, script, [bench.lock], args);

describe('short-renew', () => {
  it('prolongs the lease, and never shortens it', async () => {
    const { bench, token } = await heldBench();
    expect(await run(bench, shortRenewScript, token, LONG_MS)).toEqual([[0, 0]]);
    expect(await bench.redis.pttl(bench.lock)).toBeGreaterThan(LONG_MS / 2);
    expect(await run(bench, shortRenewScript, token, 1_000)).toEqual([[0, 0]]);
    expect(await bench.redis.pttl(bench.lock)).toBeGreaterThan(LONG_MS / 2);
  });

  it('does not touch the lease of another holder, and creates none', async () => {
    const { bench, token } = await heldBench();
    expect(await run(bench, shortRenewScript, bench.deadToken(), LONG_MS)).toEqual([[]]);
    expect(await bench.redis.pttl(bench.lock)).toBeLessThan(LONG_MS / 2);
    await bench.redis.del(bench.lock);
    expect(await run(bench, shortRenewScript, token, LONG_MS)).toEqual([[]]);
    expect(await bench.redis.exists(bench.lock)).toBe(0);
  });
});

describe('short-release', () => {
  it('frees the lock', async () => {
    const { bench, token } = await heldBench();
    expect(await run(bench, shortReleaseScript, token, 0)).toBe('released');
    expect(await bench.redis.exists(bench.lock)).toBe(0);
    expect(await run(bench, shortReleaseScript, token, 0)).toBe('lost');
  });

  it('keeps the lock taken without a holder for the given time', async () => {
    const { bench, token } = await heldBench();
    expect(await run(bench, shortReleaseScript, token, LONG_MS)).toBe('released');
    expect(await bench.redis.get(bench.lock)).toBe(`kept:${token}`);
    const leftMs = await bench.redis.pttl(bench.lock);
    expect(leftMs).toBeGreaterThan(LONG_MS / 2);
    expect(leftMs).toBeLessThanOrEqual(LONG_MS);
    expect(await run(bench, shortReleaseScript, token, 0)).toBe('lost');
  });

  it('does not touch the lease of another holder', async () => {
    const { bench, token } = await heldBench();
    for (const keepMs of [0, LONG_MS]) {
      expect(await run(bench, shortReleaseScript, bench.deadToken(), keepMs)).toBe('lost');
    }
    expect(await bench.redis.get(bench.lock)).toBe(token);
  });
});
