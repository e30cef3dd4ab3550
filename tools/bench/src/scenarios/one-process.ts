import type { Adapter } from '../adapters/adapter.js';
import { PEERS } from '../adapters/index.js';
import { nestjsLocked } from '../adapters/nestjs-locked.js';
import { rawFloor } from '../adapters/raw-floor.js';
import type { Round } from '../measure/fleet.js';
import { interleaved } from '../measure/interleaved.js';
import { type ClientShares, sentBetween } from '../measure/server-statistics.js';
import { spreadOf } from '../measure/statistics.js';
import { P99_WAIT, RATE } from './measures.js';
import { bestOf, columnsOf, type Measure, relation, rowsOf, type Scenario } from './scenario.js';

const ADAPTERS = [rawFloor, ...PEERS, nestjsLocked];
const CALLERS = { processes: 1, callers: 32 };

interface RoundWithCommands extends Round {
  readonly commands: number;
}

const COMMANDS: Measure<RoundWithCommands> = {
  id: 'commands',
  title: 'commands per hold',
  unit: '',
  of: ({ commands }) => commands,
};

export const oneProcess: Scenario = {
  id: 'one-process',
  title: '32 callers of one process, one key',
  what: 'No work under the lock. Measures the hand-over between callers.',
  isQuick: true,
  async run({ fleet, server, rounds, pace }) {
    const use = (adapter: Adapter): Promise<Round> =>
      fleet.together(adapter, 'one-process', { ...CALLERS, ms: 500 * pace });
    const shares = new Map<string, ClientShares>();
    const found = await interleaved(ADAPTERS, rounds, async (adapter) => {
      const known = shares.get(adapter.id);
      if (known === undefined) {
        await fleet.processes(adapter, 1);
        let round: Round | undefined;
        const act = async (): Promise<void> => void (round = await use(adapter));
        shares.set(adapter.id, await server.clientShares(act));
        return { ...(round as unknown as Round), commands: NaN };
      }
      const before = await server.commands();
      const round = await use(adapter);
      const { commands } = sentBetween(before, await server.commands(), known);
      return { ...round, commands: commands / round.holds };
    });
    const measures = [RATE, P99_WAIT, COMMANDS];
    const fastest = bestOf(found, RATE, 'higher', PEERS);
    const promptest = bestOf(found, P99_WAIT, 'lower', PEERS);
    return {
      columns: columnsOf(measures),
      rows: rowsOf(ADAPTERS, found, measures),
      goals: [
        {
          id: 'one-process-rate',
          text: `Holds per second of 32 callers of one process, relative to the best peer (${fastest.name})`,
          better: 'higher',
          aim: 60,
          value: relation(found, RATE, nestjsLocked, fastest),
        },
        {
          id: 'one-process-p99',
          text: `p99 wait of 32 callers of one process, relative to the best peer (${promptest.name})`,
          better: 'lower',
          aim: 0.01,
          value: relation(found, P99_WAIT, nestjsLocked, promptest),
        },
        {
          id: 'one-process-commands',
          text: 'Redis commands per hold of 32 callers of one process',
          better: 'lower',
          aim: 0.01,
          value: spreadOf((found.get(nestjsLocked.id) ?? []).map(COMMANDS.of)),
        },
      ],
    };
  },
};
