/**
 * Makes what is packed from what the compiler wrote: a bundle for each entry point and kind of module, and their
 * declarations. The bundlers are ready ones; what both kinds share is ours. `npm run build` runs it.
 *
 *     node scripts/bundle.mjs          nothing if it is there already
 *     node scripts/bundle.mjs --code   the code only, in any case
 */
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const LIBRARY = fileURLToPath(new URL('../libs/nestjs-locked/', import.meta.url));
const SCRIPTS = fileURLToPath(new URL('.', import.meta.url));
const DIST = join(LIBRARY, 'dist');
const isCodeOnly = process.argv.includes('--code');

if (isCodeOnly || !isUpToDate()) {
  // Bundlers take longer to load than to find that there is nothing to do.
  const [{ BuiltLibrary }, { bundleCode }, { bundleTypes }] = await Promise.all([
    import('./package/built-library.mjs'),
    import('./package/bundle-code.mjs'),
    import('./package/bundle-types.mjs'),
  ]);
  const library = new BuiltLibrary(LIBRARY);
  if (!isCodeOnly) removeOldFiles();
  await bundleCode(library);
  // Last, because `isUpToDate` looks at it.
  if (!isCodeOnly) await bundleTypes(library);
}

function removeOldFiles() {
  for (const name of readdirSync(DIST)) {
    if (name !== 'modules') rmSync(join(DIST, name), { recursive: true });
  }
}

function isUpToDate() {
  const last = join(DIST, 'cjs/index.d.ts');
  const sources = [
    join(DIST, 'modules/.tsbuildinfo'),
    join(LIBRARY, 'package.json'),
    join(SCRIPTS, 'bundle.mjs'),
    ...readdirSync(join(SCRIPTS, 'package')).map((name) => join(SCRIPTS, 'package', name)),
  ];
  return existsSync(last) && sources.every((file) => changedAt(file) < changedAt(last));
}

function changedAt(file) {
  return statSync(file).mtimeMs;
}
