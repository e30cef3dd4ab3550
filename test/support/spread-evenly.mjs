import Sequencer from '@jest/test-sequencer';
import { relative, sep } from 'node:path';

/**
 * Spreads the spec files of every folder evenly over the whole run, its longest first. Most of `faults`, `cluster` and
 * `redis` wait, most of `transactions` work, and beside each other they use what the other leaves. In jest's own order,
 * the longest of all first, the run would wait in its first half and work in the other.
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
 * Each file with the share of its folder's work that is done before it.
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

/** How many milliseconds it took the last time; before the first time, one for each byte of its text. */
function workOf({ path, duration, context }) {
  return duration ?? context.hasteFS.getSize(path) ?? 1;
}
