import { readOptions, readSalesOptions, USAGE } from './options.js';

const args = process.argv.slice(2);
if (args.includes('--help')) {
  console.log(USAGE);
} else if (args.includes('--transactions')) {
  const options = readOrExit(readSalesOptions);
  const { tortureTransactions } = await import('./transactions/sales-torture.js');
  process.exitCode = await tortureTransactions(options);
} else {
  const options = readOrExit(readOptions);
  const { torture } = await import('./torture.js');
  process.exitCode = await torture(options);
}

/** Reads options. If they are wrong, it says so and ends the process. */
function readOrExit<Options>(read: (args: string[]) => Options): Options {
  try {
    return read(args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exit(1);
  }
}
