import Sequencer from '@jest/test-sequencer';
import { join, relative, sep } from 'node:path';

/** Files that take more than half a minute although they are small. On a new machine, they would be the last ones. */
const LONG_AND_SMALL = [
  'foreign/redis-py.spec.ts',
  'redis/lock-store-contract.spec.ts',
  'redis/own-stall.spec.ts',
  'redis/rights-lost.spec.ts',
  'redis/rights.spec.ts',
].map((path) => join('test', path));

/** More than any file has. */
const LONG_BYTES = 50_000;

/**
 * Spreads the spec files of each folder evenly over the whole run, the longest of each first. Files in `faults`,
 * `cluster` and `redis` mostly wait, and those in `transactions` mostly compute, so running them side by side uses the
 * processors evenly. In jest's default order, longest first, the run would wait in its first half and compute in its
 * second.
 */
export default class SpreadEvenly extends Sequencer {
  /** @param {readonly import('@jest/test-result').Test[]} tests */
  sort(tests) {
    const folders = {};
    // The order of jest's own sequencer does not matter here, but it looks up the durations.
    for (const test of super.sort([...tests])) (folders[folderOf(test)] ??= []).push(test);
    return Object.values(folders)
      .flatMap((files) => placed(files))
      .toSorted((a, b) => a.place - b.place)
      .map(({ test }) => test);
  }
}

/** @param {import('@jest/test-result').Test} test */
function folderOf({ path, context }) {
  return relative(context.config.rootDir, path).split(sep)[1];
}

/**
 * Returns each file with the share of its folder's work that is done before it.
 *
 * @param {import('@jest/test-result').Test[]} files
 */
function placed(files) {
  const longestFirst = files.toSorted((a, b) => workOf(b) - workOf(a));
  const works = longestFirst.map((test) => workOf(test));
  const total = works.reduce((sum, work) => sum + work, 0);
  let done = 0;
  return longestFirst.map((test, i) => {
    const place = done / total;
    done += works[i];
    return { test, place };
  });
}

/** The duration of the last run in milliseconds; before the first run, the size of the file in bytes. */
function workOf({ path, duration, context }) {
  if (duration !== undefined) return duration;
  const isLong = LONG_AND_SMALL.includes(relative(context.config.rootDir, path));
  return isLong ? LONG_BYTES : (context.hasteFS.getSize(path) ?? 1);
}
