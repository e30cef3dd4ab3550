import type { Adapter } from '../adapters/adapter.js';
import { PEERS } from '../adapters/index.js';
import { nestjsLocked } from '../adapters/nestjs-locked.js';
import { rawFloor } from '../adapters/raw-floor.js';
import { interleaved } from '../measure/interleaved.js';
import { type ClientShares, sentBetween } from '../measure/server-statistics.js';
import { columnsOf, type Measure, relation, rowsOf, type Scenario } from './scenario.js';

const ADAPTERS = [rawFloor, ...PEERS, nestjsLocked];
const KEYS = [Array.from({ length: 300 }, (_, n) => `server-cpu:${n}`)];

interface Cost {
  readonly us: number;
  readonly wholeUs: number;
  readonly commands: number;
}

const SERVER_CPU: Measure<Cost> = {
  id: 'server-cpu',
  title: 'server CPU in commands',
  unit: 'µs',
  of: ({ us }) => us,
};
const WHOLE_CPU: Measure<Cost> = {
  id: 'whole-cpu',
  title: 'with the network',
  unit: 'µs',
  of: ({ wholeUs }) => wholeUs,
};
const COMMANDS: Measure<Cost> = {
  id: 'commands',
  title: 'commands',
  unit: '',
  of: ({ commands }) => commands,
};

export const serverCpu: Scenario = {
  id: 'server-cpu',
  title: 'What a lock costs the server',
  what: 'Redis’ reported time to take and release one free lock, commands inside scripts included; then the server’s whole CPU time.',
  isQuick: true,
  async run({ fleet, server, rounds, pace }) {
    const use = (adapter: Adapter): ReturnType<typeof fleet.apart> =>
      fleet.apart(adapter, KEYS, { ms: 250 * pace });
    const shares = new Map<string, ClientShares>();
    const found = await interleaved(ADAPTERS, rounds, async (adapter): Promise<Cost> => {
      const known = shares.get(adapter.id);
      if (known === undefined) {
        await fleet.processes(adapter, 1);
        shares.set(adapter.id, await server.clientShares(() => use(adapter)));
        return { us: NaN, wholeUs: NaN, commands: NaN };
      }
      const before = { commands: await server.commands(), cpuUs: await server.cpuUs() };
      const { holds } = await use(adapter);
      const wholeUs = (await server.cpuUs()) - before.cpuUs;
      const { us, commands } = sentBetween(before.commands, await server.commands(), known);
      return { us: us / holds, wholeUs: wholeUs / holds, commands: commands / holds };
    });
    const measures = [SERVER_CPU, WHOLE_CPU, COMMANDS];
    return {
      columns: columnsOf(measures),
      rows: rowsOf(ADAPTERS, found, measures),
      goals: [
        {
          id: 'server-cpu-floor',
          text: 'Server CPU of an uncontended lock, relative to the raw floor',
          better: 'lower',
          aim: 2,
          value: relation(found, SERVER_CPU, nestjsLocked, rawFloor),
        },
      ],
    };
  },
};
