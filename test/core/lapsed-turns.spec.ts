import { expect, it } from '@jest/globals';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { StallingProcess } from '../support/stalling-process.js';

const LEASE_MS = 30_000;
const HOLD_MS = 10;
const MINUTES_MS = 120_000;

it('processes that miss turn after turn and ask again from their old position keep nobody out [R14]', async () => {
  const clock = new FakeClock();
  const locks = new InMemoryLocks(clock);
  const healthy = Array.from({ length: 3 }, () => {
    const store = new InMemoryLockStore(locks, LEASE_MS);
    const options = resolveServiceOptions({ leaseMs: LEASE_MS });
    return new LockEngine({ store, options, report: () => {}, clock, random: () => 0 });
  });
  await Promise.all(healthy.map((engine) => engine.open()));
  const first = await healthy[0]!.acquire('x');
  // They wait before all the others, and sleep when their turn comes: a grant is theirs for three seconds.
  const stalling = Array.from({ length: 6 }, () => new StallingProcess(locks, LEASE_MS));
  for (const { engine } of stalling) {
    await engine.open();
    void engine.withLock('x', { waitMs: Infinity }, async () => {}).catch(() => {});
    await settled();
  }
  for (const process of stalling) process.stall();

  const waits: number[] = [];
  const work = async (engine: LockEngine): Promise<never> => {
    for (;;) {
      const since = clock.now();
      const lock = await engine.acquire('x', { waitMs: Infinity });
      waits.push(clock.now() - since);
      await new Promise<void>((resolve) => void clock.after(HOLD_MS, resolve));
      await lock.release();
    }
  };
  for (const engine of healthy) void work(engine);
  await settled();
  await first.release();
  for (let ms = 100; ms <= MINUTES_MS; ms += 100) {
    await clock.advance(100);
    if (ms < 5_000) continue;
    for (const [i, process] of stalling.entries()) {
      if (ms % 5_000 === (i * 3_100) % 5_000) await process.wake();
    }
  }

  // Each of the six has one turn of three seconds before any has a second one.
  expect(Math.max(...waits)).toBeLessThan(6 * 3_000 + 6_000);
});
