/** What `current()` and `assertHeld()` say when a lock is lost, has ended, or was never there. */
import { describe, expect, it } from '@jest/globals';
import {
  LockConfigError,
  LockLostError,
  LockNotAcquiredError,
  LockNotHeldError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import type { LockService } from '../../libs/nestjs-locked/src/nest/lock.service.js';
import { TestLocks } from '../../libs/nestjs-locked/src/testing/test-locks.js';
import { withTestLocks } from '../../libs/nestjs-locked/src/testing/with-test-locks.js';
import { makeGate } from '../support/gate.js';

const lost = expect.objectContaining({ code: 'LOCK_LOST', reason: 'revoked' });

function start() {
  const test = new TestLocks({ waitMs: 0 });
  const locks = test.service();
  /** What `assertHeld` throws. */
  const thrown = (...key: [] | [key: string]): unknown => {
    try {
      locks.assertHeld(...key);
      return 'held';
    } catch (error) {
      return error;
    }
  };
  return { test, locks, thrown };
}

describe('a lost lock', () => {
  it('stays the current one until its work has ended, so that ?.assertHeld() before a write throws', async () => {
    const { test, locks } = start();
    const written: string[] = [];
    const work = locks.withLock('a', async (lock) => {
      await test.lose('a');
      expect(locks.current()).toBe(lock);
      expect(locks.current('a')).toBe(lock);
      locks.current()?.assertHeld();
      written.push('unprotected');
    });
    await expect(work).rejects.toEqual(lost);
    expect(written).toEqual([]);
    expect(locks.current()).toBeUndefined();
  });

  it.each<[string, (test: TestLocks) => Promise<void>]>([
    ['revoked', (test) => test.lose('a')],
    ['max-hold', (test) => test.advance(5_000)],
    [
      'expired',
      async (test) => {
        test.storeDown();
        await test.advance(2_000);
      },
    ],
  ])('makes assertHeld() throw its reason: %s', async (reason, lose) => {
    const { test, locks, thrown } = start();
    await locks.withLock('a', { leaseMs: 1_000, maxHoldMs: 5_000 }, async () => {
      expect(thrown()).toBe('held');
      await lose(test);
      expect(thrown()).toMatchObject({ code: 'LOCK_LOST', reason, key: 'a' });
      expect(thrown('a')).toMatchObject({ code: 'LOCK_LOST', reason });
    });
  });

  it('of an outer call makes assertHeld() throw in a nested one whose own lock is held', async () => {
    const { test, locks, thrown } = start();
    await locks.withLock('a', () =>
      locks.withLock('b', async () => {
        expect(thrown()).toBe('held');
        await test.lose('a');
        expect(thrown()).toEqual(lost);
        expect(thrown('a')).toEqual(lost);
        expect(thrown('b')).toBe('held');
        expect(locks.current()?.isHeld).toBe(true);
      }),
    );
  });

  it('of a nested call concerns the outer one no more when that call has ended', async () => {
    const { test, locks, thrown } = start();
    await locks.withLock('a', async () => {
      await locks.withLock('b', async () => {
        await test.lose('b');
        expect(thrown()).toEqual(lost);
        expect(thrown('a')).toBe('held');
      });
      expect(thrown()).toBe('held');
      expect(thrown('b')).toBeInstanceOf(LockNotHeldError);
    });
  });

  it('of several keys is lost as a whole, but the others of its keys are held', async () => {
    const { test, locks, thrown } = start();
    await locks.withLock(['a', 'b'], async () => {
      await test.lose('b');
      expect(thrown()).toEqual(lost);
      expect(thrown('a')).toBe('held');
      expect(thrown('b')).toEqual(lost);
      expect(() => locks.current('a')?.assertHeld()).toThrow(LockLostError);
    });
  });

  it('is not joined: a nested call for its key has a lock of its own', async () => {
    const { test, locks, thrown } = start();
    await locks.withLock('a', async (outer) => {
      await test.lose('a');
      const other = test.hold('a');
      await expect(locks.withLock('a', () => 'joined')).rejects.toThrow(LockNotAcquiredError);
      other.release();
      await locks.withLock('a', (inner) => {
        expect(inner.fencingToken).toBeGreaterThan(outer.fencingToken);
        expect(locks.current('a')).toBe(inner);
        expect(thrown('a')).toBe('held');
        expect(thrown()).toEqual(lost);
      });
      expect(locks.current('a')).toBe(outer);
      expect(thrown('a')).toEqual(lost);
    });
  });

  it('that a nested call had joined is lost for both, and for what runs beside them', async () => {
    const { test, locks, thrown } = start();
    await locks.withLock('a', async () => {
      await locks.withLock('a', async (joined) => {
        await test.lose('a');
        expect(locks.current()).toBe(joined);
        expect(thrown()).toEqual(lost);
      });
      const branches = [1, 2].map(async () => Promise.resolve(thrown()));
      expect(await Promise.all(branches)).toEqual([lost, lost]);
    });
  });

  it('of one branch does not concern the others', async () => {
    const { test, locks, thrown } = start();
    const gate = makeGate();
    const one = locks.withLock('a', async () => {
      await test.lose('a');
      gate.open();
      return thrown();
    });
    const two = locks.withLock('b', async () => {
      await gate.opened;
      return thrown();
    });
    expect(await Promise.all([one, two])).toEqual([lost, 'held']);
  });

  it('stays current in lock.run() until that ends, and is not run again', async () => {
    const { test, locks, thrown } = start();
    const lock = await locks.acquire('a');
    await lock.run(async () => {
      await test.lose('a');
      expect(locks.current()).toBe(lock);
      expect(thrown()).toEqual(lost);
      await expect(lock.run(() => 'again')).rejects.toEqual(lost);
    });
    expect(locks.current()).toBeUndefined();
    expect(thrown()).toBeInstanceOf(LockNotHeldError);
    await expect(lock.run(() => 'again')).rejects.toEqual(lost);
    expect(await lock.release()).toBe(false);
  });

  it('of a method with @Locked is found by the service of that method only', async () => {
    const test = new TestLocks({ waitMs: 0 });
    const billing = test.service('billing');
    class Invoices {
      @Locked('invoice:<id>', { service: 'billing' })
      async send(id: string, locks: LockService): Promise<void> {
        billing.assertHeld();
        await test.lose(`invoice:${id}`, { service: 'billing' });
        locks.assertHeld();
      }
    }
    const invoices = withTestLocks(new Invoices(), test);
    await expect(invoices.send('1', billing)).rejects.toMatchObject({
      code: 'LOCK_LOST',
      message: expect.stringMatching(
        /^Lock 'invoice:1' of 'Invoices\.send' was lost \(revoked\): /,
      ),
    });
    await expect(invoices.send('2', test.service())).rejects.toThrow(LockNotHeldError);
  });
});

describe('assertHeld() where no lock is held', () => {
  it('throws outside of any work, and names the way out', () => {
    const { thrown } = start();
    expect(thrown()).toMatchObject({
      name: 'LockNotHeldError',
      code: 'LOCK_NOT_HELD',
      key: undefined,
      message:
        'No lock is held here: this code does not belong to the work of withLock, @Locked or lock.run of this LockService, or has lost the async context; call it in that work (a lock of acquire counts only inside lock.run)',
    });
  });

  it('throws under acquire() alone, and not inside lock.run()', async () => {
    const { locks, thrown } = start();
    const lock = await locks.acquire('a');
    expect(thrown()).toBeInstanceOf(LockNotHeldError);
    expect(await lock.run(() => thrown())).toBe('held');
    await lock.release();
  });

  it('throws in code that goes on after its work has ended', async () => {
    const { locks, thrown } = start();
    const gate = makeGate();
    let left: Promise<unknown[]> | undefined;
    await locks.withLock('a', () => {
      left = gate.opened.then(() => [locks.current(), thrown(), thrown('a')]);
    });
    gate.open();
    const ended =
      /: the work that this code belongs to has ended, and its lock was released or detached; await /;
    expect(await left).toEqual([
      undefined,
      expect.objectContaining({ code: 'LOCK_NOT_HELD', message: expect.stringMatching(ended) }),
      expect.objectContaining({ code: 'LOCK_NOT_HELD', key: 'a' }),
    ]);
  });

  it('throws in code that a nested call has left behind, whose key is free, while the outer one works', async () => {
    const { locks, thrown } = start();
    const gate = makeGate();
    await locks.withLock('a', async () => {
      let left: Promise<unknown[]> | undefined;
      await locks.withLock('b', () => {
        left = gate.opened.then(() => [thrown(), thrown('a'), thrown('b')]);
      });
      gate.open();
      const ended = expect.objectContaining({
        code: 'LOCK_NOT_HELD',
        message: expect.stringMatching(/^Lock 'b' is not held here: the work .* has ended/),
      });
      expect(await left).toEqual([ended, 'held', ended]);
    });
  });

  it('throws in nested work that the work around it did not await', async () => {
    const { locks, thrown } = start();
    const gate = makeGate();
    let left: Promise<unknown[]> | undefined;
    await locks.withLock('a', () => {
      left = locks.withLock('b', async () => {
        await gate.opened;
        return [thrown(), thrown('b')];
      });
    });
    gate.open();
    expect(await left).toEqual([expect.any(LockNotHeldError), 'held']);
  });

  it('returns in code that a nested call has left behind, whose key the outer one holds', async () => {
    const { locks, thrown } = start();
    const gate = makeGate();
    await locks.withLock(['a', 'b'], async () => {
      let left: Promise<unknown[]> | undefined;
      await locks.withLock('b', () => {
        left = gate.opened.then(() => [thrown(), thrown('b')]);
      });
      gate.open();
      expect(await left).toEqual(['held', 'held']);
    });
  });

  it('throws after the work has released its lock itself', async () => {
    const { locks, thrown } = start();
    await locks.withLock('a', async (lock) => {
      const released = lock.release();
      expect(thrown()).toBeInstanceOf(LockNotHeldError); // before it is answered
      await released;
      expect(thrown()).toBeInstanceOf(LockNotHeldError);
    });
  });

  it('throws for another key than the work has, and names those that it has', async () => {
    const { locks, thrown } = start();
    await locks.withLock(['b', 'a'], () => {
      expect(thrown('c')).toMatchObject({
        code: 'LOCK_NOT_HELD',
        key: 'c',
        message:
          "Lock 'c' is not held here: this code runs under 'a', 'b' only; lock this key too, or name one of those",
      });
    });
  });

  it.each([[undefined], [null], [42], [''], ['a{b}']])(
    'refuses %j as a key instead of checking any lock',
    async (key) => {
      const { locks } = start();
      await locks.withLock('a', () => {
        const wrong = key as string;
        expect(() => locks.assertHeld(wrong)).toThrow(
          expect.objectContaining({ code: 'LOCK_KEY_INVALID' }),
        );
      });
    },
  );

  it('is a class of its own', () => {
    const error = new LockNotHeldError('not here');
    for (const other of [LockLostError, LockNotAcquiredError, LockConfigError])
      expect(error).not.toBeInstanceOf(other);
  });

  it('does not wait for the store', async () => {
    const { test, locks, thrown } = start();
    let lock: Lock | undefined;
    await locks.withLock('a', (held) => {
      lock = held;
      test.storeDown();
      expect(thrown()).toBe('held');
      test.storeUp();
    });
    expect(() => lock?.assertHeld()).toThrow(
      /is not held: it was released; acquire it again, or use it before its release$/,
    );
  });
});
