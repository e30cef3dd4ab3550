/**
 * Jest's environment for Node, in which an unhandled rejection or a warning of Node fails the test during which it is
 * noticed, and the file if it comes after the last one. Jest alone forgives a rejection that is handled later, which
 * ends any other process, and does not see warnings. This is no set-up file, because what tests see as `process` is a
 * copy that gets no events.
 *
 * All Node processes that the tests start are guarded, too, by `process-guard.mjs`.
 */
import { TestEnvironment } from 'jest-environment-node';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as immediate } from 'node:timers/promises';
import { switchOffAsyncStorages } from './async-storages.mjs';
import { watchForDefects } from './defects.mjs';

/** Whoever only asks whether a file fails is answered by its first failure: the tests behind it are skipped. */
const FAILS_FAST = process.env['TEST_FAIL_FAST'] !== undefined;

const PROCESS_GUARD = new URL('./process-guard.mjs', import.meta.url).href;

/** A worker would outlive a jest that was ended by a signal, until its spec file is done. */
const endWithJest = () => process.exit();

export default class GuardedEnvironment extends TestEnvironment {
  /** @type {string[]} */
  #defects = [];
  #guardedProcesses;
  #hasFailed = false;
  #hasHung = false;
  #stopWatching = () => {};

  /**
   * @param {import('@jest/environment').JestEnvironmentConfig} config
   * @param {import('@jest/environment').EnvironmentContext} context
   */
  constructor(config, context) {
    const guardedProcesses = guardProcesses(); // before the tests' copy of `process.env` is made
    super(config, context);
    this.#guardedProcesses = guardedProcesses;
    process.on('disconnect', endWithJest);
  }

  /**
   * @param {import('@jest/types').Circus.AsyncEvent | import('@jest/types').Circus.SyncEvent} event
   * @param {import('@jest/types').Circus.State} state
   */
  handleTestEvent(event, state) {
    switch (event.name) {
      case 'setup': // jest has just removed the listeners of others
        this.#stopWatching = watchForDefects((defect) => this.#defects.push(defect));
        return undefined;
      case 'test_start':
        if (this.#hasHung || (FAILS_FAST && this.#hasFailed)) event.test.mode = 'skip';
        return undefined;
      case 'test_done':
        return this.#testIsDone(event.test);
      case 'run_finish':
        return this.#passOn(state.unhandledErrors);
      default:
        return undefined;
    }
  }

  async teardown() {
    await super.teardown();
    const late = [];
    await this.#passOn(late);
    this.#stopWatching();
    this.#guardedProcesses.end();
    switchOffAsyncStorages();
    process.off('disconnect', endWithJest); // it would keep a worker that has nothing to do alive
    if (late.length > 0) throw new Error(late.join('\n'));
  }

  /** @param {import('@jest/types').Circus.TestEntry} test */
  async #testIsDone({ errors }) {
    await this.#passOn(errors);
    this.#hasFailed ||= errors.length > 0;
    this.#hasHung ||= errors.some((error) => isTimeout(error));
  }

  /** @param {unknown[]} errors */
  async #passOn(errors) {
    await immediate(); // Node tells of a rejection after all microtasks, and of a warning in the next tick
    const found = [...this.#defects.splice(0), ...this.#guardedProcesses.takeReports()];
    errors.push(...found.map((defect) => errorSaying(defect)));
  }
}

/**
 * The test that did not end may still be at work, and what it has left behind makes others wait just as long: a file of
 * many tests would take hours to fail.
 *
 * @param {import('@jest/types').Circus.TestError} error
 */
function isTimeout(error) {
  const [thrown] = [error].flat();
  return String(thrown?.message ?? thrown).includes('Exceeded timeout of');
}

/** Every Node process started from here on is guarded, and reports to a file. */
function guardProcesses() {
  const file = join(tmpdir(), `process-guard-${randomUUID()}.jsonl`);
  const before = { NODE_OPTIONS: undefined, TEST_GUARD_REPORT: undefined, ...process.env };
  // Instead of jest's own options, which are not for others.
  process.env['NODE_OPTIONS'] = `--import=${PROCESS_GUARD}`;
  process.env['TEST_GUARD_REPORT'] = file;
  let taken = 0;
  return {
    /** @returns {string[]} what was reported since the last time */
    takeReports() {
      if (!existsSync(file)) return [];
      const reports = readFileSync(file, 'utf8').trimEnd().split('\n');
      const news = reports.slice(taken);
      taken = reports.length;
      return news.map((report) => JSON.parse(report));
    },
    end() {
      for (const name of ['NODE_OPTIONS', 'TEST_GUARD_REPORT']) {
        if (before[name] === undefined) delete process.env[name];
        else process.env[name] = before[name];
      }
      rmSync(file, { force: true });
    },
  };
}

/** @param {string} defect a message with a stack of its own */
function errorSaying(defect) {
  const error = new Error(defect);
  error.stack = defect;
  return error;
}
