import { PEERS } from '../adapters/index.js';
import { nestjsLocked, withoutAwaitedRelease } from '../adapters/nestjs-locked.js';
import { rawFloor } from '../adapters/raw-floor.js';
import { interleaved } from '../measure/interleaved.js';
import { CLIENT_CPU, RATE } from './measures.js';
import { bestOf, columnsOf, relation, rowsOf, type Scenario } from './scenario.js';

const ADAPTERS = [rawFloor, ...PEERS, nestjsLocked, withoutAwaitedRelease];
const KEYS = Array.from({ length: 300 }, (_, n) => `sequence:${n}`);

export const sequence: Scenario = {
  id: 'sequence',
  title: 'One caller, one key after the other, no contention',
  what: 'One caller takes and releases 300 keys in turn. Measures round trips.',
  isQuick: true,
  async run({ fleet, rounds, pace }) {
    const found = await interleaved(ADAPTERS, rounds, (adapter) =>
      fleet.apart(adapter, [KEYS], { ms: 400 * pace }),
    );
    const measures = [RATE, CLIENT_CPU];
    const best = bestOf(found, RATE, 'higher', PEERS);
    return {
      columns: columnsOf(measures),
      rows: rowsOf(ADAPTERS, found, measures),
      goals: [
        {
          id: 'sequence-floor',
          text: 'Holds per second of one caller, relative to the raw floor',
          better: 'higher',
          aim: 0.9,
          value: relation(found, RATE, nestjsLocked, rawFloor),
        },
        {
          id: 'sequence-peer',
          text: `Holds per second of one caller, relative to the best peer (${best.name})`,
          better: 'higher',
          aim: 1,
          value: relation(found, RATE, nestjsLocked, best),
        },
        {
          id: 'sequence-no-await',
          text: 'Holds per second of one caller with `awaitRelease: false`, relative to the raw floor',
          better: 'higher',
          aim: 1.4,
          value: relation(found, RATE, withoutAwaitedRelease, rawFloor),
        },
      ],
    };
  },
};
