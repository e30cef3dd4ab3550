/**
 * Jest's Node environment with a guard: an unhandled rejection or a warning of Node fails the test during which it is
 * detected, or the file if the last test has ended. Jest itself ignores warnings and rejections that are handled late,
 * although the latter end any other process. A set-up file cannot do this, because the `process` of the tests is a copy
 * that receives no events.
 *
 * `process-guard.mjs` guards the Node processes that the tests start.
 */
import { TestEnvironment } from 'jest-environment-node';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as immediate } from 'node:timers/promises';
import { switchOffAsyncStorages } from './async-storages.mjs';
import { watchForDefects } from './defects.mjs';

/** Set when only the outcome of the file matters: the first failure skips the remaining tests. */
const FAILS_FAST = process.env['TEST_FAIL_FAST'] !== undefined;

const PROCESS_GUARD = new URL('./process-guard.mjs', import.meta.url).href;

/** Otherwise, if a signal ends jest, a worker would run its spec file to the end. */
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
      case 'setup': // jest has just removed all other listeners
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
    process.off('disconnect', endWithJest); // it would keep an idle worker alive
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
    await immediate(); // Node reports a rejection after all microtasks, and a warning in the next tick
    const found = [...this.#defects.splice(0), ...this.#guardedProcesses.takeReports()];
    errors.push(...found.map((defect) => errorSaying(defect)));
  }
}

/**
 * After a time-out, the remaining tests are skipped: the hung test may still run, and what it left behind can make each
 * later test time out as well, so that a large file would take hours to fail.
 *
 * @param {import('@jest/types').Circus.TestError} error
 */
function isTimeout(error) {
  const [thrown] = [error].flat();
  return String(thrown?.message ?? thrown).includes('Exceeded timeout of');
}

/** Guards every Node process started from now on. Each reports its defects to a file. */
function guardProcesses() {
  const file = join(tmpdir(), `process-guard-${randomUUID()}.jsonl`);
  const before = { NODE_OPTIONS: undefined, TEST_GUARD_REPORT: undefined, ...process.env };
  // Replaces jest's own options, which do not apply to other processes.
  process.env['NODE_OPTIONS'] = `--import=${PROCESS_GUARD}`;
  process.env['TEST_GUARD_REPORT'] = file;
  let taken = 0;
  return {
    /** @returns {string[]} the reports since the last call */
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

/** @param {string} defect a message that includes a stack */
function errorSaying(defect) {
  const error = new Error(defect);
  error.stack = defect;
  return error;
}
