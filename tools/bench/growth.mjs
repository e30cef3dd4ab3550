/**
 * How many masters of Redis a number of locks per second needs: the tables of docs/growth.md.
 *
 *     npm run bench:growth                                    the tables
 *     npm run bench:growth -- --rate 250000 --contended 0.02  one load; also --skew, --keys, --replicas, --headroom
 *     npm run bench:growth -- --starts                        measures what starts and TLS cost a server, in a minute
 *     npm run bench:growth -- --measure                       measures again what it is calculated from, in two minutes
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { answerFor, ASSUMED, growthTables } from './growth/growth-tables.mjs';

const MEASURED = fileURLToPath(new URL('growth/measured.json', import.meta.url));

const { values } = parseArgs({
  options: {
    measure: { type: 'boolean', default: false },
    starts: { type: 'boolean', default: false },
    rate: { type: 'string' },
    contended: { type: 'string', default: '0' },
    skew: { type: 'string', default: '0' },
    keys: { type: 'string', default: String(ASSUMED.keys) },
    replicas: { type: 'string', default: String(ASSUMED.replicas) },
    headroom: { type: 'string', default: String(ASSUMED.headroom) },
  },
});

if (values.measure) {
  const { measure } = await import('./growth/measure.mjs');
  const measured = await measure();
  writeFileSync(MEASURED, `${JSON.stringify(measured, null, 2)}\n`);
  console.log(measured);
} else if (values.starts) {
  const { measureStarts } = await import('./growth/measure-starts.mjs');
  console.log(await measureStarts());
} else {
  const costs = JSON.parse(readFileSync(MEASURED, 'utf8'));
  if (values.rate === undefined) console.log(growthTables(costs));
  else console.log(answerFor(loadOf(values), costs));
}

function loadOf(options) {
  const texts = { ...options, measure: 0, starts: 0 };
  const load = Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, Number(text)]),
  );
  const wrong = Object.keys(load).find((name) => !(load[name] >= 0));
  if (wrong === undefined) return load;
  console.error(`--${wrong} must be a number, and not below 0`);
  process.exit(2);
}
