/**
 * Writes what the simulator's page loads into the documentation: `node tools/simulate-page/bundle.mjs`.
 *
 * The library and the simulated world are the same files as for Node. Its modules have stand-ins in `src/node`, and
 * async functions become generators, so that the stand-in of `AsyncLocalStorage` sees each `await`.
 */
import { build } from 'esbuild';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const STAND_INS = [
  ['node:async_hooks', 'async-hooks'],
  ['node:crypto', 'crypto'],
  ['node:diagnostics_channel', 'diagnostics-channel'],
  ['node:events', 'events'],
  ['node:module', 'module'],
  ['node:net', 'net'],
  ['node:os', 'os'],
  ['node:path', 'path'],
  ['node:timers/promises', 'timers-promises'],
  ['node:worker_threads', 'worker-threads'],
];

const COMMON = { bundle: true, platform: 'browser', target: 'es2022', logLevel: 'warning' };

/** What makes code for Node run in a browser. */
export const WORLD = {
  ...COMMON,
  format: 'iife',
  keepNames: true, // errors are told apart, and shown, by theirs
  supported: { 'async-await': false, 'async-generator': false, 'for-await': false },
  inject: [join(HERE, 'src/node/globals.ts')],
  alias: {
    ...Object.fromEntries(
      STAND_INS.map(([name, file]) => [name, join(HERE, `src/node/${file}.ts`)]),
    ),
    kit: join(HERE, '../kit/src/seeded-random.ts'), // all else in it is for Node
    lodash: join(HERE, 'src/node/lodash.ts'),
  },
  define: { 'import.meta.url': '""' },
  external: ['module', 'url'], // the interpreter asks for them in Node only
  loader: { '.wasm': 'base64' },
};

/** @param {string} outdir */
export async function bundlePage(outdir = join(HERE, '../../docs/public/simulator')) {
  const output = { outdir, minify: true, metafile: true };
  const bundled = await Promise.all([
    build({
      ...COMMON,
      ...output,
      entryPoints: { page: join(HERE, 'src/page/page.ts') },
      format: 'esm',
    }),
    build({ ...WORLD, ...output, entryPoints: { world: join(HERE, 'src/world/worker.ts') } }),
  ]);
  return bundled.map(({ metafile }) => metafile);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const { outputs } of await bundlePage()) {
    for (const [file, { bytes }] of Object.entries(outputs)) {
      console.log(`${file}: ${Math.round(bytes / 1024)} KB`);
    }
  }
}
