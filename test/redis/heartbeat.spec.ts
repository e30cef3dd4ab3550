import { describe, expect, it } from '@jest/globals';
import { Heartbeat } from '../../libs/nestjs-locked/src/redis/connection/silence/heartbeat.js';
import { FakeClock } from '../support/fake-clock.js';

/** How long until a connection counts as dead if a command is sent on it after a silence. */
async function patience(tookMs: number, isHeldUp = false): Promise<number | undefined> {
  const clock = new FakeClock();
  const dead: number[] = [];
  const options = { clock, everyMs: 60_000, timeLimitMs: 1_400, isHeldUp: () => isHeldUp };
  const heartbeat = new Heartbeat(
    options,
    () => {},
    (ms) => void dead.push(ms),
  );
  heartbeat.start(tookMs);
  await clock.advance(10_000);
  heartbeat.sent();
  await clock.advance(10_000);
  heartbeat.stop();
  return dead[0];
}

describe('the first answer on a connection that was idle', () => {
  it.each([
    ['half a second', 10, 500],
    ['three times what the connection took when it was new', 200, 600],
    ['half of the limit of a command', 300, 700],
    ['twice what the connection took when it was new', 400, 800],
  ])('may take %s', async (_, tookMs, ms) => {
    expect(await patience(tookMs)).toBe(ms);
  });

  it('may take longer while a WAIT is in flight', async () => {
    expect(await patience(10, true)).toBeUndefined();
  });
});

describe('a sign of life that is not answered', () => {
  /** How long until a connection counts as dead if nothing else is sent on it. */
  async function deadAfter(isHeldUp: boolean): Promise<number | undefined> {
    const clock = new FakeClock();
    const dead: number[] = [];
    const options = { clock, everyMs: 2_000, timeLimitMs: 4_000, isHeldUp: () => isHeldUp };
    const heartbeat = new Heartbeat(
      options,
      () => {},
      () => void dead.push(clock.now()),
    );
    const startedAt = clock.now();
    heartbeat.start(10);
    await clock.advance(10_000);
    heartbeat.stop();
    return dead[0] === undefined ? undefined : dead[0] - startedAt;
  }

  it('shows within half of the limit of a command that the connection is dead', async () => {
    expect(await deadAfter(false)).toBe(4_000);
  });

  it('shows nothing while a WAIT is in flight', async () => {
    expect(await deadAfter(true)).toBeUndefined();
  });
});
