import { expect } from '@jest/globals';
import { FENCE_BLOCK } from '../../libs/nestjs-locked/src/core/store/fence-block.js';
import type { Reply } from './script-bench.js';

/** How many fencing tokens are reserved by a grant that reserves any, and by a renewal if a test says nothing else. */
export const BLOCK = FENCE_BLOCK;
/** How much of an expiry a slow machine may use up between the script and the check. */
const SLACK_MS = 20_000;

/** Asserts that the reply is a grant for the token, and returns its numbers. */
export function granted(
  reply: Reply,
  token: string,
  ...behind: 'lost'[]
): { fence: number; blockEnd: number; waiters: number } {
  if (reply.length === 1) return grantedAtOnce(reply);
  expect(reply).toEqual([
    'granted',
    token,
    expect.stringMatching(/^\d{16}$/),
    expect.stringMatching(/^\d{16}$/),
    expect.any(Number),
    ...behind,
  ]);
  const [fence, blockEnd, waiters] = reply.slice(2).map(Number) as [number, number, number];
  expect([fence, fence + BLOCK]).toContain(blockEnd); // one if nobody waits, or far ahead of the clock
  return { fence, blockEnd, waiters };
}

/** The reply for a free lock is its fencing token alone: no block is reserved, and there are no waiters. */
function grantedAtOnce(reply: Reply): { fence: number; blockEnd: number; waiters: number } {
  expect(reply).toEqual([expect.stringMatching(/^\d{16}$/)]);
  const fence = Number(reply[0]);
  return { fence, blockEnd: fence, waiters: 0 };
}

/** Asserts that the reply is a position in the queue for the token, and returns it. */
export function queued(
  reply: Reply,
  token: string,
  ...behind: 'lost'[]
): { score: string; pttl: number; foreign: number } {
  expect(reply).toEqual([
    'queued',
    token,
    expect.stringMatching(/^\d+$/),
    expect.any(Number),
    expect.any(Number),
    ...behind,
  ]);
  const [score, pttl, foreign] = reply.slice(2) as [string, number, number];
  return { score, pttl, foreign };
}

/** Asserts that an expiry was just set to `whole` milliseconds. */
export function expectLife(ms: number, whole: number): void {
  expect(ms).toBeGreaterThan(whole - SLACK_MS);
  expect(ms).toBeLessThanOrEqual(whole);
}
