import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

/**
 * Says while jest runs what goes wrong in it. Jest itself tells nothing of a spec file before all of it is done, which
 * is too late where a file hangs, or where each of its tests waits for what has failed in the first one.
 *
 * A failed test is named at once, and so is a test that has not ended for some minutes. If its process stands still
 * altogether, no time limit of jest ends it: after much longer than any limit, the run fails.
 */
export default class HangsReporter {
  #tellAfterMs;
  #endAfterMs;
  /**
   * What is under way in each spec file, and since when.
   * @type {Map<string, { what: string, since: number, isTold: boolean }>}
   */
  #running = new Map();

  /**
   * @param {unknown} _config
   * @param {{ tellAfterMs?: number, endAfterMs?: number }} options
   */
  constructor(_config, { tellAfterMs = 180_000, endAfterMs = 900_000 } = {}) {
    this.#tellAfterMs = tellAfterMs;
    this.#endAfterMs = endAfterMs;
    setInterval(() => this.#look(), tellAfterMs / 3).unref();
  }

  /** @param {import('@jest/reporters').Test} test */
  onTestFileStart({ path }) {
    this.#goesOn(path, 'the file before its first test');
  }

  /**
   * @param {import('@jest/reporters').Test} test
   * @param {import('@jest/types').Circus.TestCaseStartInfo} info
   */
  onTestCaseStart({ path }, { fullName }) {
    this.#goesOn(path, fullName);
  }

  /**
   * @param {import('@jest/reporters').Test} test
   * @param {import('@jest/reporters').TestCaseResult} result
   */
  onTestCaseResult({ path }, { fullName, status, duration }) {
    if (status === 'failed')
      console.error(`failed after ${duration} ms: ${named(path)}: ${fullName}`);
    this.#goesOn(path, `what comes after ${fullName}`);
  }

  /** @param {import('@jest/reporters').Test} test */
  onTestFileResult({ path }) {
    this.#running.delete(path);
  }

  #goesOn(path, what) {
    this.#running.set(path, { what, since: performance.now(), isTold: false });
  }

  #look() {
    for (const [path, running] of this.#running) {
      const { what, since, isTold } = running;
      const ms = performance.now() - since;
      if (ms < this.#tellAfterMs || (isTold && ms < this.#endAfterMs)) continue;
      console.error(`not over after ${Math.round(ms / 1_000)} s: ${named(path)}: ${what}`);
      running.isTold = true;
      if (ms >= this.#endAfterMs) endRun();
    }
  }
}

/** @param {string} path */
function named(path) {
  return relative(process.cwd(), path);
}

/** A worker that stands still does not notice that jest has gone. */
function endRun() {
  for (const pid of workers()) process.kill(Number(pid), 'SIGKILL');
  process.exit(1);
}

/**
 * Those of this process, where the system tells them. Its other children are the servers of the tests, and what stops
 * these and removes their folders when jest has ended.
 *
 * @returns {string[]}
 */
function workers() {
  try {
    const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' ');
    return children
      .filter(Boolean)
      .filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('jest-worker'));
  } catch {
    return [];
  }
}
