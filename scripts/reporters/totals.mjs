/**
 * Ends the output of jest with one plain line on standard output, `N passed, N failed`, which none of jest's own
 * reporters does: their summary goes to standard error, in colours, and counts no test for a suite that was not loaded.
 *
 * Here such a suite counts as one failed test. A describe that is named `skipped: no MariaDB` says why tests in it were
 * skipped: its name stands before the line, and so does the number of all that were skipped. A run in which nothing
 * passed fails.
 */
export default class TotalsReporter {
  /** @type {import('@jest/reporters').AggregatedResult | undefined} */
  #results;

  constructor() {
    // Jest's own summary and the tear-down come after the run is complete.
    process.once('exit', () => this.#print());
  }

  /**
   * @param {unknown} _contexts
   * @param {import('@jest/reporters').AggregatedResult} results
   */
  onRunComplete(_contexts, results) {
    this.#results = results;
  }

  /** Asked by jest when the run is complete: an error makes it fail. */
  getLastError() {
    return this.#results?.numPassedTests === 0 ? new Error('nothing passed') : undefined;
  }

  #print() {
    if (this.#results === undefined) {
      console.log('jest ended without a result\n0 passed, 0 failed');
      return;
    }
    const { numPassedTests, numFailedTests, numRuntimeErrorTestSuites } = this.#results;
    const skipped = this.#results.numPendingTests + this.#results.numTodoTests;
    for (const reason of skipReasons(this.#results)) console.log(reason);
    if (skipped > 0) console.log(`${skipped} skipped`);
    console.log(`${numPassedTests} passed, ${numFailedTests + numRuntimeErrorTestSuites} failed`);
  }
}

/**
 * Names of describes that say why the tests in them were skipped, each once.
 * @param {import('@jest/reporters').AggregatedResult} results
 */
function skipReasons(results) {
  const names = results.testResults
    .flatMap(({ testResults }) => testResults)
    .filter(({ status }) => status === 'pending')
    .flatMap(({ ancestorTitles }) => ancestorTitles);
  return new Set(names.filter((name) => name.startsWith('skipped: ')));
}
