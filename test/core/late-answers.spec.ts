import { describe, expect, it } from '@jest/globals';
import {
  LateAnswers,
  SlowLinkError,
} from '../../libs/nestjs-locked/src/redis/connection/silence/slow-link.js';
import { FakeClock } from '../support/fake-clock.js';

const LATE_MS = 300;

function start() {
  const clock = new FakeClock();
  const late = new LateAnswers({ clock, timeLimitMs: 200, leaseMs: 600 });
  /** A command is sent, and answered too late. */
  const answer = async (): Promise<SlowLinkError | undefined> => {
    const sentAt = clock.now();
    await clock.advance(LATE_MS);
    return late.came(sentAt);
  };
  return { clock, late, answer };
}

describe('answers that come too late', () => {
  it('are blamed on a slow link after three in a row', async () => {
    const { answer } = start();
    expect(await answer()).toBeUndefined();
    expect(await answer()).toBeUndefined();
    const error = await answer();
    expect(error).toBeInstanceOf(SlowLinkError);
    expect(error?.message).toMatch(
      /took 300 ms, more than the 200 ms that .* with a lease of 600 ms/,
    );
  });

  it('are counted from zero after one that was in time', async () => {
    const { late, answer } = start();
    await answer();
    await answer();
    late.clear();
    expect(await answer()).toBeUndefined();
  });

  it('count once if their commands were in flight together, as when the server stood still', async () => {
    const { clock, late } = start();
    const sentAt = clock.now();
    await clock.advance(LATE_MS);
    for (let i = 0; i < 10; i++) expect(late.came(sentAt + i)).toBeUndefined();
  });
});
