import { describe, expect, it } from '@jest/globals';
import { LeaseDeadline } from '../../libs/nestjs-locked/src/core/lease/lease-deadline.js';
import { FakeClock } from '../support/fake-clock.js';
import { PlayedWorker } from '../support/played-worker.js';

/** Time goes on with each reading, so that a deadline may pass between two. */
class RunningClock extends FakeClock {
  override now(): number {
    this.block(1);
    return super.now();
  }
}

describe('the latest end of a lease in the store', () => {
  it('includes a renewal that was sent and not answered: it may have been carried out', () => {
    const clock = new FakeClock();
    const start = clock.now();
    const grant = {
      ...{ token: 'p:1', fence: 1, blockEnd: 1_000, waiters: 0, position: undefined },
      ...{ introducedAt: start, lengthMs: 1_000, leaseMs: 1_000, cameBy: 'answer' as const },
    };
    const deadline = new LeaseDeadline(clock, grant, []);
    expect(deadline.latest - start).toBeLessThan(2_001);
    clock.block(500);
    deadline.asked(60_000);
    expect(deadline.latest - start).toBe(60_500);
    expect(deadline.at - start).toBeLessThan(1_000);
  });
});

describe('a deadline that passes while it is read', () => {
  // It passes before one reading of the clock or the next one.
  const cases = (['leftMs', 'certainMs'] as const).flatMap((read) =>
    [0, 1].map((earlierMs) => ({ read, earlierMs })),
  );
  it.each(cases)('is not revived once $read was 0 ($earlierMs)', ({ read, earlierMs }) => {
    const clock = new RunningClock();
    const worker = new PlayedWorker();
    const introducedAt = clock.now();
    const grant = {
      ...{ token: 'p:1', fence: 1, blockEnd: 1_000, waiters: 0, position: undefined },
      ...{ introducedAt, lengthMs: 1_000, leaseMs: 1_000, cameBy: 'answer' as const },
    };
    const deadline = new LeaseDeadline(clock, grant, [], worker.memory.of('key', 'p:1'));
    deadline.cover(1_000, Infinity);
    const lease = worker.only();
    clock.block(earlierMs);
    while (deadline[read]() > 0);
    lease.renewed(introducedAt + 500);
    expect(deadline[read]()).toBe(0);
  });
});
