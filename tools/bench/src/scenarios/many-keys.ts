import { PEERS } from '../adapters/index.js';
import { nestjsLocked } from '../adapters/nestjs-locked.js';
import { rawFloor } from '../adapters/raw-floor.js';
import { interleaved } from '../measure/interleaved.js';
import { CLIENT_CPU, RATE } from './measures.js';
import { bestOf, columnsOf, relation, rowsOf, type Scenario } from './scenario.js';

const ADAPTERS = [rawFloor, ...PEERS, nestjsLocked];
const KEYS = Array.from({ length: 64 }, (_, n) => [`many-keys:${n}`]);

export const manyKeys: Scenario = {
  id: 'many-keys',
  title: '64 callers on 64 keys',
  what: '64 callers of one process take and release a key each. Measures the client’s work per lock.',
  isQuick: true,
  async run({ fleet, rounds, pace }) {
    const found = await interleaved(ADAPTERS, rounds, (adapter) =>
      fleet.apart(adapter, KEYS, { ms: 400 * pace }),
    );
    const measures = [RATE, CLIENT_CPU];
    const best = bestOf(found, RATE, 'higher', PEERS);
    return {
      columns: columnsOf(measures),
      rows: rowsOf(ADAPTERS, found, measures),
      goals: [
        {
          id: 'many-keys-peer',
          text: `Holds per second of 64 callers on 64 keys, relative to the best peer (${best.name})`,
          better: 'higher',
          aim: 1,
          value: relation(found, RATE, nestjsLocked, best),
        },
        {
          id: 'many-keys-floor',
          text: 'Holds per second of 64 callers on 64 keys, relative to the raw floor',
          better: 'higher',
          aim: 0.9,
          value: relation(found, RATE, nestjsLocked, rawFloor),
        },
        {
          id: 'many-keys-cpu',
          text: 'Client CPU per lock of 64 callers on 64 keys, relative to the raw floor',
          better: 'lower',
          aim: 1.5,
          value: relation(found, CLIENT_CPU, nestjsLocked, rawFloor),
        },
      ],
    };
  },
};
