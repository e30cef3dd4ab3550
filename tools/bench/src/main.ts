import { isBusy } from './machine.js';
import { type BenchOptions, readOptions } from './options.js';
import { comparable, regressions } from './report/check.js';
import { readRelease, writeLatest, writePages, writeRelease } from './report/files.js';
import { scenarioTable } from './report/table.js';
import type { Results } from './results.js';
import { runBench } from './run-bench.js';
import { SCENARIOS } from './scenarios/index.js';

try {
  const options = readOptions(process.argv.slice(2));
  if (options.onlyList) {
    for (const { id, title } of SCENARIOS) console.log(`${id.padEnd(14)} ${title}`);
  } else if (options.onlyPage) {
    console.log((await writePages(released())).join('\n'));
  } else {
    process.exitCode = (await bench(options)) ? 0 : 1;
  }
} catch (error) {
  console.error('The bench could not be run:', error);
  process.exitCode = 1;
}

/** @returns whether nothing is wrong: never two inside, and, if asked, nothing slower than at the release */
async function bench(options: BenchOptions): Promise<boolean> {
  const { only, mode, rounds, pace, out } = options;
  const left = SCENARIOS.filter(({ id }) => !only.includes(id)).map(({ id }) => id);
  if (left.length > 0) console.log(`Left out: ${left.join(', ')}`);
  const scenarios = SCENARIOS.filter(({ id }) => only.includes(id));
  const results = await runBench(scenarios, {
    mode,
    rounds,
    pace,
    begin: (machine) => {
      if (isBusy(machine)) console.log(`Other programs are busy: the load is ${machine.load}`);
    },
    tell: (result) => console.log(scenarioTable(result)),
  });
  console.log(`\nWritten: ${await writeLatest(results, out)}`);
  if (options.save) console.log((await writeRelease(results)).join('\n'));
  for (const violation of results.violations) console.error(`\nTWO INSIDE: ${violation}`);
  const isFast = !options.check || isAsFastAsReleased(results);
  return results.violations.length === 0 && isFast;
}

function isAsFastAsReleased(results: Results): boolean {
  const release = released();
  const worse = regressions(results, release);
  console.log(
    `\nCompared with ${release.version}: ${comparable(results, release)} numbers, ${worse.length} worse`,
  );
  for (const sentence of worse) console.error(`WORSE: ${sentence}`);
  return worse.length === 0;
}

function released(): Results {
  const release = readRelease();
  if (release === undefined) throw new Error('tools/bench/results has no numbers of a release');
  return release;
}
