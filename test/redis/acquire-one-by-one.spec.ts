import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { ANSWER_GRACE_MS } from '../../libs/nestjs-locked/src/core/queue/waiting-call.js';
import type {
  AcquireReply,
  ReleaseCommand,
  ReleaseReply,
} from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { acquireOneByOne } from '../../libs/nestjs-locked/src/redis/acquire-one-by-one.js';
import { FakeClock } from '../support/fake-clock.js';

const cause = new LockStoreError('the cable is out');
const granted = { kind: 'granted', token: 't', fence: 1, blockEnd: 1, waiters: 0 } as const;
const busy = { kind: 'busy', remainingMs: 100 } as const;
const unknown = { kind: 'unknown', cause, neverRan: true } as const;
const wasFree = { kind: 'busy', remainingMs: 0, wasFree: true };

/** The outcome for three keys. The one after the last reply is never answered. */
async function take(
  acquires: readonly AcquireReply[],
  released: ReleaseReply = { kind: 'released' },
) {
  const sent: string[] = [];
  const replies = [...acquires];
  const clock = new FakeClock();
  const store = {
    acquire: async ({ key }: { key: string }) => {
      sent.push(`acquire ${key}`);
      return replies.shift() ?? new Promise<never>(() => {});
    },
    release: async ({ key, token, used }: ReleaseCommand) => {
      sent.push(`release ${key} ${token}, used ${used}`);
      return released;
    },
  };
  const commands = ['a', 'b', 'c'].map((key) => {
    return { key, token: `of ${key}`, leaseMs: 1_000, nowait: true };
  });
  const taking = acquireOneByOne(store, commands, clock);
  await clock.advance(ANSWER_GRACE_MS);
  return { outcome: await taking, sent };
}

describe('acquireOneByOne', () => {
  it('takes one key after the other', async () => {
    const { outcome, sent } = await take([granted, granted, granted]);
    expect(outcome).toEqual([granted, granted, granted]);
    expect(sent).toEqual(['acquire a', 'acquire b', 'acquire c']);
  });

  it('releases the keys that it has, and requests no more, when one is taken', async () => {
    const { outcome, sent } = await take([granted, busy]);
    expect(outcome).toEqual([wasFree, busy, wasFree]);
    expect(sent).toEqual(['acquire a', 'acquire b', 'release a of a, used 0']);
  });

  it('reports the unanswered key as unknown, and no other', async () => {
    const { outcome } = await take([granted, unknown]);
    expect(outcome).toEqual([wasFree, unknown, wasFree]);
  });

  it('releases the keys that it has when the next one is not answered before the call gives up', async () => {
    const { outcome, sent } = await take([granted]);
    expect(sent).toEqual(['acquire a', 'acquire b', 'release a of a, used 0']);
    expect(outcome).toMatchObject([wasFree, { kind: 'unknown', cause: { key: 'b' } }, wasFree]);
    expect(outcome[1]).not.toHaveProperty('neverRan');
  });

  it.each([1_500, 910, 895, 870])(
    'does not mistake an event loop that was blocked for %d ms for a silent server',
    async (blockedMs) => {
      const clock = new FakeClock();
      const store = {
        acquire: () =>
          new Promise<AcquireReply>((resolve) => void clock.after(40, () => resolve(granted))),
        release: async () => ({ kind: 'released' as const }),
      };
      const commands = ['a', 'b', 'c'].map((key) => {
        return { key, token: `of ${key}`, leaseMs: 1_000, nowait: true };
      });
      const taking = acquireOneByOne(store, commands, clock);
      clock.block(blockedMs);
      await clock.advance(100);
      expect(await taking).toEqual([granted, granted, granted]);
    },
  );

  it('reports a key that may still be taken as unknown, however the release failed', async () => {
    const { outcome } = await take([granted, busy], unknown);
    expect(outcome).toEqual([{ ...unknown, neverRan: false }, busy, wasFree]);
  });
});
