import { readOptions } from './options.js';
import { torture } from './torture.js';
import { readSalesOptions } from './transactions/sales-options.js';
import { readOrExit, USAGE } from './usage.js';

const args = process.argv.slice(2);
if (args.includes('--help')) {
  console.log(USAGE);
} else if (args.includes('--transactions')) {
  const options = readOrExit(readSalesOptions, args);
  const { tortureTransactions } = await import('./transactions/sales-torture.js');
  process.exitCode = await tortureTransactions(options);
} else {
  process.exitCode = await torture(readOrExit(readOptions, args));
}
