/** The one timer of a lock service, on the real clock. */
import { describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { type Scheduled, Scheduler } from '../../libs/nestjs-locked/src/core/time/scheduler.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

class Item implements Scheduled {
  scheduled: Scheduled['scheduled'];
  readonly due: number[] = [];

  onDue(now: number): void {
    this.due.push(now);
  }
}

const newScheduler = (): Scheduler =>
  new Scheduler(systemClock, { before: () => {}, after: () => {} });

describe('Scheduler', () => {
  it('that is idle with its timer armed still handles what becomes due before and after that time', async () => {
    const scheduler = newScheduler();
    const [left, early, late] = [new Item(), new Item(), new Item()];
    const now = systemClock.now();
    scheduler.schedule(left, now + 60);
    scheduler.cancel(left);
    scheduler.schedule(early, now + 20);
    scheduler.schedule(late, now + 120);
    await sleep(200);
    expect(left.due).toEqual([]);
    expect(early.due).toHaveLength(1);
    expect(early.due[0]).toBeGreaterThanOrEqual(now + 20);
    expect(late.due).toHaveLength(1);
    expect(late.due[0]).toBeGreaterThanOrEqual(now + 120);
    expect(scheduler.size).toBe(0);
  });

  it('that is idle lets the process end; one that is needed again does not', async () => {
    // The second call waits 300 ms for a lock that is not released, and nothing else is left to wait for.
    const program = `
      import 'reflect-metadata';
      import { inMemoryEngine } from './libs/nestjs-locked/dist/modules/testing/in-memory-engine.js';
      import { InMemoryLocks } from './libs/nestjs-locked/dist/modules/testing/in-memory-locks.js';
      const locks = inMemoryEngine({ waitMs: 60_000 }, new InMemoryLocks());
      for (let n = 0; n < 3; n++) await locks.withLock('a', {}, async () => {});
      const lock = await locks.acquire('b');
      await locks.acquire('b', { waitMs: 300 }).catch(({ code }) => console.log(code));
      await lock.release();
      console.log('the end');
    `;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    const from = performance.now();
    const [exitCode] = (await once(child, 'exit')) as [number];

    expect([exitCode, output]).toEqual([0, 'LOCK_NOT_ACQUIRED\nthe end\n']);
    expect(performance.now() - from).toBeLessThan(8_000); // a timer that was left would be due after 10 s
  });
});
