import Sequencer from '@jest/test-sequencer';
import { relative, sep } from 'node:path';

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
 * @param {import('@jest/test-result').Test[]} files longest first
 */
function placed(files) {
  const works = files.map((test) => workOf(test));
  const total = works.reduce((sum, work) => sum + work, 0);
  let done = 0;
  return files.map((test, i) => {
    const place = done / total;
    done += works[i];
    return { test, place };
  });
}

/** The duration of the last run in milliseconds; before the first run, the size of the file in bytes. */
function workOf({ path, duration, context }) {
  return duration ?? context.hasteFS.getSize(path) ?? 1;
}
