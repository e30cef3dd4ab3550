import { it } from '@jest/globals';
import { beside } from './after-test.js';

type Body = (...row: unknown[]) => Promise<void>;

/**
 * A test that waits more than it works. It runs concurrently with the other tests of its `describe` declared this way,
 * and before the tests that are not. Jest runs neither `beforeEach` nor `afterEach` for it.
 */
export function concurrentIt(title: string, body: () => Promise<void>): void {
  it.concurrent(title, beside(body));
}

/** Declares one concurrent test for each row. */
concurrentIt.each = ((rows: readonly unknown[]) => (title: string, body: Body) =>
  it.concurrent.each(rows)(title, beside(body))) as typeof it.each;
