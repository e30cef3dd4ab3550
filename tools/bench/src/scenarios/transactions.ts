import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';
import { ratioOf, spreadOf } from '../measure/statistics.js';
import type { Scenario } from './scenario.js';

const PROGRAM = fileURLToPath(new URL('../../transactions.mjs', import.meta.url));
const PLAIN = 'plain transaction';
const DATA_SOURCE = 'data source';
const LOCKED = 'under a lock, fence and time-outs';

/** What the program tells: milliseconds per transaction, for each round. */
interface Variant {
  readonly name: string;
  /** How its transactions are opened: through TypeORM's data source, or through nestjs-cls. */
  readonly through: string;
  readonly ms: readonly number[];
}

export const transactions: Scenario = {
  id: 'transactions',
  title: 'A transaction under a lock',
  what: 'A short transaction (one read, one write) on PostgreSQL on the same machine, opened through TypeORM’s data source or nestjs-cls: without a lock, under one lock around all of them, and with a lock around each. Each row is an application of its own; its ratio is to the plain transaction opened in the same way.',
  isQuick: false,
  async run() {
    const variants = await measured();
    const msOf = (wanted: string, way: string): readonly number[] => {
      const found = variants.find(({ name, through }) => name === wanted && through === way);
      if (found === undefined)
        throw new Error(`tools/bench/transactions.mjs has no row '${wanted}'`);
      return found.ms;
    };
    return {
      columns: [
        { id: 'ms', title: 'a transaction', unit: 'ms' },
        { id: 'ratio', title: 'ratio to the plain one', unit: '' },
      ],
      rows: variants.map(({ name, through, ms }) => ({
        name: `${through}: ${name}`,
        values: { ms: spreadOf(ms), ratio: ratioOf(ms, msOf(PLAIN, through)) },
      })),
      goals: [
        {
          id: 'transactions-fence',
          // 0.15 ms more than 0.39 ms, which the plain one took when the goal was set.
          text: 'Time of a locked transaction with fence and time-outs, relative to a plain one',
          better: 'lower',
          aim: 1.38,
          value: ratioOf(msOf(LOCKED, DATA_SOURCE), msOf(PLAIN, DATA_SOURCE)),
        },
      ],
    };
  },
};

async function measured(): Promise<readonly Variant[]> {
  const program = new ChildProgram<never, Variant[]>(PROGRAM, {
    stdout: 'ignore',
    endSignal: 'SIGTERM',
  });
  const variants = await program.nextMessage();
  program.disconnect();
  const how = await program.ended;
  if (how !== 'exit code 0') throw new Error(`tools/bench/transactions.mjs has ended: ${how}`);
  return variants;
}
