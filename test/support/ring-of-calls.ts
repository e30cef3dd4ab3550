import { expect } from '@jest/globals';
import { LockDeadlockError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { makeGate } from './gate.js';

/** A lock service, or its engine. */
export interface Locking {
  withLock<T>(key: string, options: { label?: string }, work: () => T | Promise<T>): Promise<T>;
}

export interface StartedRing {
  /** Each call has its first key. */
  readonly allHold: Promise<void>;
  readonly ended: Promise<PromiseSettledResult<number>[]>;
}

/**
 * Each call has one key, and requests the next one once all have theirs.
 * @param services each call is one of the next one of them
 * @param closing before which the last call does not request the first key, so that there is no ring
 */
export function startRing(
  services: readonly Locking[],
  keys: readonly string[],
  closing: Promise<unknown> = Promise.resolve(),
): StartedRing {
  const all = makeGate();
  let holding = 0;
  const calls = keys.map((key, i) => {
    const service = services[i % services.length] as Locking;
    const next = keys[(i + 1) % keys.length] as string;
    return service.withLock(key, { label: `outer ${i}` }, async () => {
      if (++holding === keys.length) all.open();
      await all.opened;
      if (i === keys.length - 1) await closing;
      return service.withLock(next, { label: `inner ${i}` }, () => i);
    });
  });
  return { allHold: all.opened, ended: Promise.allSettled(calls) };
}

/** Why calls have failed. */
export function errorsOf(results: readonly PromiseSettledResult<unknown>[]): unknown[] {
  return results.flatMap((it) => (it.status === 'rejected' ? [it.reason as unknown] : []));
}

/** Asserts that one call of a ring has been ended, because of this ring, and that all others have gone on. */
export async function expectOneVictim(
  { ended }: StartedRing,
  keys: readonly string[],
): Promise<void> {
  const [error, ...others] = errorsOf(await ended);
  expect(others).toEqual([]);
  expect(error).toBeInstanceOf(LockDeadlockError);
  expect((error as LockDeadlockError).ring.map(({ key }) => key).sort()).toEqual(keys.toSorted());
}
