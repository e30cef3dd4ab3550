import { expect, it } from '@jest/globals';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { byBytes, inOrder, MAX_KEYS } from '../../libs/nestjs-locked/src/core/keys/key-order.js';
import { LockKeyError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { afterTest } from '../support/after-test.js';

function names(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `stock:${i}`);
}

it('keys are sorted by their bytes, each once', () => {
  expect(inOrder(['b', 'é', 'a', 'Z', 'b', 'e'])).toEqual(['Z', 'a', 'b', 'e', 'é']);
  expect(['\u{1F600}', '\uFFFD'].sort(byBytes)).toEqual(['\uFFFD', '\u{1F600}']); // not as UTF-16
});

it('as many keys as one script can take without blocking Redis are accepted, repeated or not', () => {
  expect(inOrder(names(MAX_KEYS))).toHaveLength(MAX_KEYS);
  expect(inOrder([...names(MAX_KEYS), ...names(MAX_KEYS)])).toHaveLength(MAX_KEYS);
});

it.each([MAX_KEYS + 1, 130_000])(
  '%i different keys in one call are refused before any command [R24]',
  async (count) => {
    const locks = new InMemoryLocks();
    const store = new InMemoryLockStore(locks, 30_000);
    const engine = new LockEngine({ store, options: resolveServiceOptions({}), report: () => {} });
    afterTest(() => engine.close(0));
    const asked = engine.withLock(names(count), {}, async () => 'inside');

    await expect(asked).rejects.toThrow(LockKeyError);
    await expect(asked).rejects.toThrow(
      `Cannot lock ${count} keys in one call: at most ${MAX_KEYS} are taken at once`,
    );
    expect(locks.keys()).toEqual([]);
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  },
);
