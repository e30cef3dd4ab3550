import { readOptions } from './options.js';
import { scenarioTable } from './report/table.js';
import { runBench } from './run-bench.js';
import { SCENARIOS } from './scenarios/index.js';

try {
  const options = readOptions(process.argv.slice(2));
  if (options.onlyList) {
    for (const { id, title } of SCENARIOS) console.log(`${id.padEnd(14)} ${title}`);
  } else {
    const scenarios = SCENARIOS.filter(({ id }) => options.only.includes(id));
    const { violations } = await runBench(scenarios, options.isQuick ? 'quick' : 'full', (result) =>
      console.log(scenarioTable(result)),
    );
    for (const violation of violations) console.error(`\nNot exclusive: ${violation}`);
    process.exitCode = violations.length > 0 ? 1 : 0;
  }
} catch (error) {
  console.error('The bench could not be run:', error);
  process.exitCode = 1;
}
