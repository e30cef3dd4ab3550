/**
 * How many masters of Redis a number of locks per second needs: the tables of docs/growth.md.
 *
 *     npm run bench:growth                                    the tables
 *     npm run bench:growth -- --rate 250000 --contended 0.02  one load; also --skew, --keys, --replicas, --headroom
 *     npm run bench:growth -- --starts                        measures what starts and TLS cost a server, in a minute
 *     npm run bench:growth -- --measure                       measures again what it is calculated from, in two minutes
 */
import { numberFrom } from 'kit';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { answerFor, ASSUMED, growthTables } from './growth-tables.js';
import type { KeyUse } from './key-shares.js';
import type { Costs, Load } from './masters-needed.js';
import { measureCosts, measureStarts } from './measure.js';

const MEASURED = fileURLToPath(new URL('../../results/growth.json', import.meta.url));

const options = parseArgs({
  options: {
    measure: { type: 'boolean', default: false },
    starts: { type: 'boolean', default: false },
    rate: { type: 'string' },
    contended: { type: 'string' },
    skew: { type: 'string' },
    keys: { type: 'string' },
    replicas: { type: 'string' },
    headroom: { type: 'string' },
  },
});
const { measure, starts, ...given } = options.values;

try {
  if (measure) {
    const measured = await measureCosts();
    writeFileSync(MEASURED, `${JSON.stringify(measured, null, 2)}\n`);
    console.log(measured);
  } else if (starts) {
    console.log(await measureStarts());
  } else {
    const costs = JSON.parse(readFileSync(MEASURED, 'utf8')) as Costs;
    console.log(given.rate === undefined ? growthTables(costs) : answerFor(loadOf(given), costs));
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

function loadOf(texts: typeof given): Load & KeyUse {
  const load = { ...ASSUMED, rate: 0, contended: 0, skew: 0 };
  for (const name of ['rate', 'contended', 'skew', 'keys', 'replicas', 'headroom'] as const) {
    load[name] = numberFrom(name, texts[name], 0) ?? load[name];
  }
  return load;
}
