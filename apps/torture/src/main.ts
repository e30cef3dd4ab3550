import { readOptions } from './options.js';
import { torture } from './torture.js';

process.exitCode = await torture(readOptions(process.argv.slice(2)));
