import { nestjsLocked, withLinger } from '../adapters/nestjs-locked.js';
import { rawFloor } from '../adapters/raw-floor.js';
import { interleaved } from '../measure/interleaved.js';
import { CLIENT_CPU, RATE } from './measures.js';
import { columnsOf, relation, rowsOf, type Scenario } from './scenario.js';

const ADAPTERS = [rawFloor, nestjsLocked, withLinger];

export const linger: Scenario = {
  id: 'linger',
  title: 'One caller, the same key again and again',
  what: 'One caller takes and releases one key. With `lingerMs: 50`, the process keeps the lease, so the next call needs no round trip.',
  isQuick: true,
  async run({ fleet, rounds, pace }) {
    const found = await interleaved(ADAPTERS, rounds, (adapter) =>
      fleet.apart(adapter, [['linger']], { ms: 400 * pace }),
    );
    const measures = [RATE, CLIENT_CPU];
    return {
      columns: columnsOf(measures),
      rows: rowsOf(ADAPTERS, found, measures),
      goals: [
        {
          id: 'linger-floor',
          text: 'Holds per second of one key with `lingerMs: 50`, relative to the raw floor',
          better: 'higher',
          aim: 200,
          value: relation(found, RATE, withLinger, rawFloor),
        },
      ],
    };
  },
};
