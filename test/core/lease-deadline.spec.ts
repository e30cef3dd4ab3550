import { describe, expect, it } from '@jest/globals';
import { LeaseDeadline } from '../../libs/nestjs-locked/src/core/lease/lease-deadline.js';

describe('the end of a lease in the store, at the latest', () => {
  it('counts a renewal that was sent and not answered: it may have been carried out', () => {
    const grant = {
      ...{ token: 'p:1', fence: 1, blockEnd: 1_000, waiters: 0, score: undefined },
      ...{ introducedAt: 0, lengthMs: 1_000, leaseMs: 1_000, cameBy: 'answer' as const },
    };
    const deadline = new LeaseDeadline(grant, []);
    expect(deadline.latest).toBeLessThan(2_001);
    deadline.asked(500, 60_000);
    expect(deadline.latest).toBe(60_500);
    expect(deadline.at).toBeLessThan(1_000);
  });
});
