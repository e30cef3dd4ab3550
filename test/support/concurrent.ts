import { it } from '@jest/globals';
import { beside } from './after-test.js';

type Body = (...row: unknown[]) => Promise<void>;

/**
 * A test that waits more than it works: it runs beside the others of its `describe` that are made so, before those that
 * are not. Jest runs neither `beforeEach` nor `afterEach` for it.
 */
export function concurrentIt(title: string, body: () => Promise<void>): void {
  it.concurrent(title, beside(body));
}

/** One such test for each row. */
concurrentIt.each = ((rows: readonly unknown[]) => (title: string, body: Body) =>
  it.concurrent.each(rows)(title, beside(body))) as typeof it.each;
