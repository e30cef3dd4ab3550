import { describe, expect, it } from '@jest/globals';
import { LeaseDeadline } from '../../libs/nestjs-locked/src/core/lease/lease-deadline.js';
import { FakeClock } from '../support/fake-clock.js';

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
