import { STAGES } from './servers/stage.js';

export const USAGE = `Processes under random faults, and a checker of what they saw. Exit code: 0 if nothing was found.

npm run torture -- [--seed N] [--seconds N] [--processes N] [--stage ${STAGES.join('|')}]
                   [--only NAMES] [--without NAMES] [--break NAMES] [--keep]
npm run torture -- --transactions [--seed N] [--seconds N] [--processes N] [--callers N]
                   [--without NAMES] [--break NAMES]

NAMES are separated by commas; a wrong one is answered with all that there are.`;

/** Reads options. If they are wrong, it says so and ends the process. */
export function readOrExit<Options>(
  read: (args: string[]) => Options,
  args: readonly string[],
): Options {
  try {
    return read([...args]);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exit(1);
  }
}
