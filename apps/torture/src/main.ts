import { readOptions } from './options.js';
import { torture } from './torture.js';

const args = process.argv.slice(2);
process.exitCode = args.includes('--transactions')
  ? await (await import('./transactions/sales-torture.js')).tortureTransactions(args)
  : await torture(readOptions(args));
