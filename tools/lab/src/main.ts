import { ACCIDENTS } from './accidents.js';
import { readOptions } from './options.js';
import { writePages } from './report/write-report.js';
import { runLab } from './run-lab.js';
import { STAGES } from './stages/index.js';

try {
  const options = readOptions(process.argv.slice(2));
  if (options.onlyList) {
    console.log('Stages (--stage)');
    for (const { id, name, breaks } of STAGES) {
      console.log(`  ${id.padStart(3)}  ${name.padEnd(34)} ${breaks}`);
    }
    console.log('\nAccidents (--accident)');
    for (const { id, name, how } of ACCIDENTS) console.log(`  ${id.padEnd(15)} ${name}: ${how}`);
  } else if (options.page) {
    console.log(writePages().join('\n'));
  } else {
    process.exitCode = (await runLab(options)) ? 0 : 1;
  }
} catch (error) {
  console.error(`The lab could not be run: ${inWords(error)}`);
  process.exitCode = 1;
}

function inWords(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${inWords(error.cause)}`;
}
