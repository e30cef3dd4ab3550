/** Puts the declarations of each entry point into one file, with files for what several of them name. */
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { refuse } from './built-library.mjs';

/** @param {import('./built-library.mjs').BuiltLibrary} library */
export async function bundleTypes(library) {
  const bundle = await rollup({
    input: library.input('.d.ts'),
    external: library.isExternal,
    plugins: [dts(), indentedByTabs],
    onLog: refuse,
  });
  const { output } = await bundle.write({
    dir: library.dist,
    format: 'esm',
    minifyInternalExports: false,
    entryFileNames: '[name].d.ts',
    chunkFileNames: ({ name }) => `types/${name.replace(/\.d$/, '')}.d.ts`,
  });
  await bundle.close();
  // The same text: package.json beside it says of which kind it is.
  for (const { fileName } of output) {
    cpSync(join(library.dist, fileName), join(library.dist, 'cjs', fileName));
  }
}

/** As the code is. The compiler writes four spaces, which are two in a hundred bytes of the package. */
const indentedByTabs = {
  name: 'indented by tabs',
  renderChunk: (text) => text.replace(/^(?: {4})+/gm, (indent) => '\t'.repeat(indent.length / 4)),
};
