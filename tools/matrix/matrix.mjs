/**
 * Packs the library, installs it from a registry into applications that are made for it outside of this tree, and runs
 * them: no ready tool makes Nest applications of several ages, builds and module systems. It needs the network.
 *
 *     npm run matrix                              everything, one line for each cell
 *     npm run matrix -- --only nest12-esm-vitest  some cells; the names that --list prints, or how they begin
 *     npm run matrix -- --keep                    leaves the applications where they are, to look into
 *
 * The exit code is 1 if a cell failed.
 */
import { RedisServer } from 'dev-servers';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { cells } from './cells.mjs';
import { GeneratedApp, packLibrary, Skipped } from './generated-app.mjs';

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    list: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
  },
});
const wanted = values.only.flatMap((names) => names.split(','));
const unknown = wanted.filter((name) => !cells.some((cell) => cell.name.startsWith(name)));
if (unknown.length > 0) {
  console.error(`--only ${unknown.join(',')}: there is no such cell; --list prints them`);
  process.exit(2);
}
const chosen = cells.filter(
  ({ name }) => wanted.length === 0 || wanted.some((start) => name.startsWith(start)),
);
const width = Math.max(...cells.map(({ name }) => name.length));

if (values.list) {
  for (const { name, title } of chosen) console.log(`${name.padEnd(width)}  ${title}`);
} else {
  process.exitCode = await runCells();
}

async function runCells() {
  const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-matrix-'));
  const redis = await RedisServer.start();
  const counts = { ok: 0, skipped: 0, FAILED: 0 };
  try {
    const tarball = packLibrary(folder);
    for (const cell of chosen) {
      const since = performance.now();
      const app = new GeneratedApp(join(folder, cell.name), tarball, redis.url);
      const [verdict, detail] = await outcome(cell, app);
      const seconds = `${((performance.now() - since) / 1_000).toFixed(0)} s`;
      console.log(
        `${cell.name.padEnd(width)}  ${verdict.padEnd(7)}  ${seconds.padStart(5)}  ${detail}`,
      );
      counts[verdict] += 1;
    }
  } finally {
    await redis.stop();
    if (values.keep) console.log(`The applications are in ${folder}`);
    else rmSync(folder, { recursive: true, force: true });
  }
  console.log(`${counts.ok} ok, ${counts.skipped} skipped, ${counts.FAILED} failed`);
  return counts.FAILED === 0 ? 0 : 1;
}

async function outcome(cell, app) {
  try {
    return ['ok', (await cell.run(app)) ?? cell.title];
  } catch (error) {
    if (error instanceof Skipped) return ['skipped', error.message];
    return ['FAILED', `${cell.title}\n${error.message}`];
  }
}
