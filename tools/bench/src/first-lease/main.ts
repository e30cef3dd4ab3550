/**
 * How soon a dead holder's key is free, and how many leases living holders lose, with several rules for the length of
 * leases: the tables and the picture of docs/first-lease.md.
 *
 *     npm run bench:first-lease              the tables
 *     npm run bench:first-lease -- --draw    draws the picture again
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { PICTURES } from './picture.js';
import { firstLeaseTables } from './tables.js';

const FOLDER = fileURLToPath(new URL('../../../../docs/first-lease/', import.meta.url));

const { values } = parseArgs({ options: { draw: { type: 'boolean', default: false } } });

for (const [condition, table] of firstLeaseTables()) console.log(`${condition}\n\n${table}\n`);
if (values.draw) {
  mkdirSync(FOLDER, { recursive: true });
  for (const [name, svg] of PICTURES) writeFileSync(join(FOLDER, name), svg);
}
