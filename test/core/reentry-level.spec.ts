import { describe, expect, it } from '@jest/globals';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ReentryLevel } from '../../libs/nestjs-locked/src/core/calls/reentry-level.js';
import type { Hold } from '../../libs/nestjs-locked/src/core/queue/hold.js';
import { FakeClock, settled } from '../support/fake-clock.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const clock = new FakeClock();

function start() {
  let users = 1;
  const hold = { join: () => users++, leave: () => users--, isOver: false } as unknown as Hold;
  return { root: new ReentryLevel(hold), users: () => users };
}

/** A call inside the re-entry level that enters at once. */
function inside(parent: ReentryLevel): ReentryLevel {
  void parent.mutex.enter(clock, 0);
  return new ReentryLevel(parent.hold, parent);
}

describe('re-entry levels', () => {
  it('very many, each inside the previous one, leave the hold when the last one closes', async () => {
    const { root, users } = start();
    const awaited = [root];
    for (let n = 0; n < 20_000; n++) awaited.unshift(inside(awaited[0]!));
    const left = inside(awaited[0]!);
    for (const level of awaited.slice(0, -1)) await level.close(); // the innermost one first
    expect(users()).toBe(2);
    await left.close();
    expect(users()).toBe(1);
    expect(await root.mutex.enter(clock, 0)).toBe('entered');
  });

  it('leave the hold even if what follows fails', () => {
    const { root, users } = start();
    const level = inside(root);
    root.mutex.leave = () => {
      throw new RangeError('on purpose');
    };
    expect(() => level.close()).toThrow('on purpose');
    expect(users()).toBe(1);
  });

  it('that have closed still admit the calls that wait inside', async () => {
    const { root } = start();
    const outer = inside(root);
    const first = inside(outer);
    const waiting = outer.mutex.enter(clock, 1_000);
    await outer.close();
    const left = inside(first);
    await first.close();
    await left.close();
    expect(await waiting).toBe('entered');
    expect(await root.mutex.enter(clock, 0)).toBe('busy');
    outer.mutex.leave();
    expect(await root.mutex.enter(clock, 0)).toBe('entered');
  });

  it('that have closed are forgotten although each has begun the next', async () => {
    const { root } = start();
    let last = inside(root);
    const closed: WeakRef<object>[] = [];
    for (let n = 0; n < 5; n++) {
      const next = inside(last);
      await last.close();
      closed.push(new WeakRef(last.mutex));
      last = next;
    }
    await settled();
    collectGarbage();
    // The last one is inside that of the one before.
    expect(closed.filter((mutex) => mutex.deref() !== undefined)).toHaveLength(1);
    await last.close();
    expect(await root.mutex.enter(clock, 0)).toBe('entered');
  });
});
