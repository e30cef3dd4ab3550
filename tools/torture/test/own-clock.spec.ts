import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../test/support/eventually.js';
import { runCommand } from '../../../test/support/run-command.js';
import { standStill } from '../../../test/support/stand-still.js';
import { watchHeartbeat } from '../src/worker/heartbeat.js';
import { OwnClock } from '../src/worker/own-clock.js';

/**
 * How much the clock counts of each time in which its process stands still, after it was told of a suspend of at least
 * `toldMs`. The process does nothing else: in this one, other threads may use the processor meanwhile.
 */
async function counted(toldMs: number, stoodStillMs: readonly number[]): Promise<number[]> {
  const program = `
    import { OwnClock } from '${import.meta.resolve('../dist/worker/own-clock.js')}';
    const clock = new OwnClock();
    clock.install();
    clock.expectSuspend(${toldMs});
    const counted = ${JSON.stringify(stoodStillMs)}.map((ms) => {
      const before = performance.now();
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      return performance.now() - before;
    });
    console.log(JSON.stringify(counted));`;
  const args = ['--input-type=module', '--eval', program];
  const { stdout, stderr } = await runCommand(process.execPath, args, process.cwd());
  expect(stderr).toBe('');
  return JSON.parse(stdout) as number[];
}

describe('the clock of a worker of torture', () => {
  it('leaves out a suspend that it was told of, once', async () => {
    const [suspended, later] = await counted(200, [300, 300]);
    expect(suspended).toBeLessThan(100);
    expect(later).toBeGreaterThan(250);
  });

  it('counts a shorter pause', async () => {
    const [paused] = await counted(2_000, [300]);
    expect(paused).toBeGreaterThan(250);
  });

  it('counts a later one: the suspend was over before the worker had heard of it', async () => {
    const works = Array.from({ length: 12 }, () => 100);
    const suspended = (await counted(200, [...works, 300])).at(-1);
    expect(suspended).toBeGreaterThan(250);
  });

  it('was disturbed until its event loop has turned for so long, however long it stood still', async () => {
    const clock = new OwnClock();
    const stop = watchHeartbeat(
      () => {},
      (turnedMs) => clock.loopTurned(turnedMs),
    );
    expect(clock.wasDisturbedWithin(300)).toBe(false);
    clock.stepWall(1_000);
    standStill(500);
    await sleep(10);
    expect(clock.wasDisturbedWithin(300)).toBe(true);
    await eventually(() => expect(clock.wasDisturbedWithin(300)).toBe(false));
    stop();
  });
});
