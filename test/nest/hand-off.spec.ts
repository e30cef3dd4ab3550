/** `detach` and `adopt` as applications call them, in memory. */
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  type Lock,
  LockConfigError,
  Locked,
  LockLostError,
  LockNotAdoptedError,
  LockService,
} from 'nestjs-locked';
import { TestLocks, withTestLocks } from 'nestjs-locked/testing';
import { of } from 'rxjs';

const FOR_MS = 60_000;

@Injectable()
class Accounts {
  constructor(readonly locks: LockService) {}

  @Locked('account:<id>')
  async export(id: string): Promise<string> {
    const text = await this.locks.current()?.detach({ forMs: FOR_MS });
    return `${id} ${text}`;
  }
}

function start() {
  const locks = new TestLocks({ waitMs: 0 });
  const service = locks.service();
  const detached = (key = 'account:7'): Promise<string> =>
    service.withLock(key, (lock) => lock.detach({ forMs: FOR_MS }));
  return { locks, service, detached };
}

describe('LockService.adopt()', () => {
  it('goes on under the lock of a method with @Locked, which detached its current lock', async () => {
    const { locks, service } = start();
    const accounts = withTestLocks(new Accounts(service), locks);
    const [, text = ''] = (await accounts.export('7')).split(' ');
    await expect(accounts.export('7')).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
    const done = await service.adopt(text, async (lock) => {
      await service.withLock('account:7', () => service.assertHeld('account:7'));
      return [lock.key, lock.isHeld];
    });
    expect(done).toEqual(['account:7', true]);
    expect(locks.calls.map(({ by, outcome }) => [by, outcome])).toEqual([
      ['Accounts.export', 'detached'],
      ['Accounts.export', 'busy'],
      ['adopt', 'released'],
      ['withLock', 'released'],
    ]);
    expect(await service.inspect('account:7')).toBeNull();
  });

  it('returns a lock without work, takes options before it, and names the keys that it records', async () => {
    const { locks, service, detached } = start();
    const lock = await service.adopt(await detached(), { label: 'job', leaseMs: 1_000 });
    expect((await service.inspect('account:7'))?.holder?.label).toBe('job');
    await locks.advance(10_000);
    expect(lock.isHeld).toBe(true);
    await locks.lose('account:7');
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    await lock.release();
    const work = (held: Lock): number => held.fencingToken;
    const token = await service.adopt(await detached(), { maxHoldMs: 5_000 }, work);
    expect(token).toBeGreaterThan(lock.fencingToken);
    expect(locks.calls).toContainEqual({ by: 'adopt', keys: ['account:7'], outcome: 'lost' });
  });

  it('is refused when the time is over, and after the first', async () => {
    const { locks, service, detached } = start();
    const late = await detached();
    await locks.advance(FOR_MS + 1);
    await expect(service.adopt(late)).rejects.toThrow(LockNotAdoptedError);
    const text = await detached();
    await service.adopt(text, () => {});
    await expect(service.adopt(text, () => {})).rejects.toThrow(LockNotAdoptedError);
    expect(locks.calls.filter(({ by }) => by === 'adopt').map(({ outcome }) => outcome)).toEqual([
      'refused',
      'released',
      'refused',
    ]);
  });

  it('refuses a call of another form before it adopts, and shows the text to nobody', async () => {
    const { service, detached } = start();
    const text = await detached();
    const adopt = service.adopt.bind(service) as (...args: unknown[]) => Promise<unknown>;
    for (const args of [[text, {}, 5], [text, () => {}, {}], [text, 5], [text, null], [5]]) {
      await expect(adopt(...args)).rejects.toThrow(LockConfigError);
    }
    const lazy: unknown = await service.adopt(text, () => of(1)).catch((error: unknown) => error);
    expect(lazy).toBeInstanceOf(LockConfigError);
    expect(String(lazy)).toMatch(/Cannot lock 'account:7'/);
    expect(String(lazy)).not.toContain(text.slice(10, 40));
  });

  it('is refused across services that do not share their locks', async () => {
    const { locks, detached } = start();
    const other = new TestLocks().service();
    await expect(other.adopt(await detached())).rejects.toThrow(LockNotAdoptedError);
    expect(locks.calls).toHaveLength(1);
  });
});
