/**
 * Measures other locks and ours on one Redis.
 *
 *     npm run bench                            every scenario
 *     npm run bench -- --only linger,forms     some; --list names them
 *     npm run bench -- --quick                 fewer, with shorter rounds; or --rounds 3 --pace 0.25
 *     npm run bench -- --check                 is anything slower than at the last release?
 *     npm run bench -- --save                  writes the numbers of this version, and the pages about them
 *     npm run bench -- --page                  only writes the pages again, from the numbers of the last release
 *
 * The numbers of each run are written to results/latest.json, or to the file after `--out`.
 */
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
  if (options.list) {
    for (const { id, title } of SCENARIOS) console.log(`${id.padEnd(14)} ${title}`);
  } else if (options.page) {
    console.log((await writePages(readRelease())).join('\n'));
  } else {
    process.exitCode = (await bench(options)) ? 0 : 1;
  }
} catch (error) {
  console.error('The bench could not be run:', error);
  process.exitCode = 1;
}

/** @returns whether nothing is wrong: never two inside, and, if asked, nothing slower than at the release */
async function bench({ scenarios, out, save, check, ...pace }: BenchOptions): Promise<boolean> {
  const left = SCENARIOS.filter((scenario) => !scenarios.includes(scenario));
  if (left.length > 0) console.log(`Left out: ${left.map(({ id }) => id).join(', ')}`);
  const results = await runBench(scenarios, {
    ...pace,
    begin: (machine) => {
      if (isBusy(machine)) console.log(`Other programs are busy: the load is ${machine.load}`);
    },
    tell: (result) => console.log(scenarioTable(result)),
  });
  console.log(`\nWritten: ${await writeLatest(results, out)}`);
  if (save) console.log((await writeRelease(results)).join('\n'));
  for (const violation of results.violations) console.error(`\nTWO INSIDE: ${violation}`);
  const isFast = !check || isAsFastAsReleased(results);
  return results.violations.length === 0 && isFast;
}

function isAsFastAsReleased(results: Results): boolean {
  const release = readRelease();
  const worse = regressions(results, release);
  console.log(
    `\nCompared with ${release.version}: ${comparable(results, release)} numbers, ${worse.length} worse`,
  );
  for (const sentence of worse) console.error(`WORSE: ${sentence}`);
  return worse.length === 0;
}
