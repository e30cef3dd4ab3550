import { describe, expect, it } from '@jest/globals';
import {
  acceptanceLeaseMs,
  driftMarginMs,
  renewalDueAt,
  renewalRetryAt,
  safetyIntervalMs,
} from '../../libs/nestjs-locked/src/core/store/lease-timing.js';

describe('the arithmetic of leases', () => {
  it.each([
    // lease, drift margin, acceptance lease, safety interval
    [500, 5, 500, 167],
    [1_000, 10, 1_000, 334],
    [10_000, 100, 1_000, 3_334],
    [30_000, 300, 3_000, 5_000],
    [600_000, 6_000, 60_000, 5_000],
  ])(
    'of %i ms: margin %i, acceptance lease %i, safety interval %i [R32, R38]',
    (leaseMs, ...expected) => {
      expect([
        driftMarginMs(leaseMs),
        acceptanceLeaseMs(leaseMs),
        safetyIntervalMs(leaseMs),
      ]).toEqual(expected);
    },
  );

  it('renews after about a third, never later, so that two more tries fit in', () => {
    for (const leaseMs of [500, 1_000, 30_000, 600_000]) {
      for (const sentAt of [0, 1_234.5, 99_999.9]) {
        const after = renewalDueAt(sentAt, leaseMs) - sentAt;
        expect(after).toBeLessThanOrEqual(leaseMs / 3);
        expect(after).toBeGreaterThan(leaseMs / 4);
      }
    }
  });

  it('a renewal that has failed is tried again with those that failed just before it [D52]', () => {
    const retries = new Set<number>();
    for (let now = 10_000.3; now < 10_500; now += 0.7) {
      const at = renewalRetryAt(now);
      expect(at - now).toBeGreaterThan(49);
      expect(at - now).toBeLessThanOrEqual(100);
      retries.add(at);
    }
    expect(retries.size).toBe(10);
  });
});
