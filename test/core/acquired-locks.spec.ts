import { describe, expect, it, jest } from '@jest/globals';
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type AcquiredEntry,
  AcquiredLocks,
} from '../../libs/nestjs-locked/src/core/calls/acquired-locks.js';
import type { HeldLock } from '../../libs/nestjs-locked/src/core/calls/held-lock.js';
import { ContextVariable } from '../../libs/nestjs-locked/src/core/context-variable.js';
import type { Hold } from '../../libs/nestjs-locked/src/core/queue/hold.js';

/** A lock of `acquire()`, requested by the running code. */
function acquired(locks: AcquiredLocks): Hold {
  const hold = {} as Hold;
  const entry: AcquiredEntry = locks.newEntry();
  entry.take({ holds: [hold], isReleased: false } as unknown as HeldLock);
  return hold;
}

describe('the locks of acquire()', () => {
  it('are those of one lock service, in whatever context of another one', async () => {
    const [ours, others] = [new AcquiredLocks(), new AcquiredLocks()];
    await Promise.resolve();
    const [first, , second] = [acquired(ours), acquired(others), acquired(ours)];
    expect(ours.here()).toEqual([first, second]);
    expect(others.here()).toHaveLength(1);
  });

  it('are still known after the work in which acquire() was called, if that has not awaited', async () => {
    const locks = new AcquiredLocks();
    await Promise.resolve();
    const hold = new ContextVariable<string>().run('a call', () => acquired(locks));
    expect(locks.here()).toEqual([hold]);
  });

  it('are forgotten when they are released, or when the call has not got its lock', async () => {
    const locks = new AcquiredLocks();
    await Promise.resolve();
    const released = { holds: [{} as Hold], isReleased: false };
    const entry = locks.newEntry();
    entry.take(released as unknown as HeldLock);
    locks.newEntry().leave();
    released.isReleased = true;

    const enterWith = jest.spyOn(AsyncLocalStorage.prototype, 'enterWith');
    const hold = acquired(locks);
    expect(enterWith.mock.calls).toEqual([[[expect.anything()]]]);
    enterWith.mockRestore();
    expect(locks.here()).toEqual([hold]);
  });

  it('are unknown to code that has begun before', async () => {
    const locks = new AcquiredLocks();
    const earlier = Promise.resolve().then(() => locks.here());
    acquired(locks);
    expect(await earlier).toEqual([]);
  });
});
