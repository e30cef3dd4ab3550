/** Bundles the code of the library; docs/adr/0031-bundles-share-what-needs-only-node.md says why in this way. */
import { rolldown } from 'rolldown';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSharedModules, refuse } from './built-library.mjs';

const PREFIX = '\0shared:';

/** @param {import('./built-library.mjs').BuiltLibrary} library */
export async function bundleCode(library) {
  const shared = await readSharedModules(library);
  const bundleOf = (id) => library.pathOf(id).split('/')[0];
  const bundles = [...new Set([...shared.keys()].map(bundleOf))];
  const commonJs = join(library.dist, 'cjs');
  await write(library, {
    input: Object.fromEntries(bundles.map((name) => [name, PREFIX + name])),
    plugins: [entriesOf(shared, bundleOf), builtinModules],
    preserveEntrySignatures: 'allow-extension', // as includeDependenciesRecursively requires
    output: {
      format: 'cjs',
      dir: join(commonJs, 'shared'),
      // Node searches a CommonJS file that an ES module imports for names, which takes longer than to run it. So the
      // code is in files of its own.
      codeSplitting: {
        includeDependenciesRecursively: false,
        groups: bundles.map((name) => ({ name, test: (id) => bundleOf(id) === name })),
      },
    },
  });
  for (const [format, dir, folder] of [
    ['esm', library.dist, 'cjs/shared'],
    ['cjs', commonJs, 'shared'],
  ]) {
    // Where it would be if the bundles were where the modules are.
    const fileOf = (id) => join(library.modules, folder, `${bundleOf(id)}.js`);
    await write(library, {
      input: library.input('.js'),
      plugins: [linksTo(shared, fileOf)],
      output: { format, dir },
    });
  }
  writeFileSync(join(commonJs, 'package.json'), '{ "type": "commonjs" }\n');
}

async function write(library, { output, ...options }) {
  const bundle = await rolldown({
    ...options,
    cwd: library.modules, // comments name each module from here
    platform: 'node',
    external: library.isExternal,
    onLog: refuse,
  });
  await bundle.write({
    ...output,
    chunkFileNames: 'parts/[name].js',
    // What is published is read and debugged, and names of classes are logged: only comments go.
    keepNames: true,
    minifyInternalExports: false,
    comments: { annotation: true, jsdoc: false, legal: false },
    esModule: true,
  });
  await bundle.close();
}

/** Makes the entry points of the shared bundles: every name that is imported from outside of them. */
function entriesOf(shared, bundleOf) {
  return {
    name: 'entries',
    resolveId: (id) => (id.startsWith(PREFIX) ? id : undefined),
    load(id) {
      if (!id.startsWith(PREFIX)) return undefined;
      const bundle = id.slice(PREFIX.length);
      const own = [...shared].filter(([module]) => bundleOf(module) === bundle);
      const names = own.flatMap(([, exported]) => exported);
      const twice = names.find((name, n) => names.indexOf(name) !== n);
      if (twice !== undefined)
        throw new Error(`two modules of the bundle ${bundle} export ${twice}: rename one`);
      return own
        .map(
          ([module, exported]) =>
            `export { ${exported.join(', ')} } from ${JSON.stringify(module)};`,
        )
        .join('\n');
    },
  };
}

/** Leads imports of shared modules to their bundle. */
function linksTo(shared, fileOf) {
  return {
    name: 'links',
    async resolveId(specifier, importer, options) {
      const resolved = await this.resolve(specifier, importer, { ...options, skipSelf: true });
      if (resolved === null || !shared.has(resolved.id)) return resolved;
      return { id: fileOf(resolved.id), external: 'relative' };
    },
  };
}

/** Bundlers that make one ES module of an application cannot give `require` to a CommonJS module. */
const builtinModules = {
  name: 'builtin modules',
  renderChunk: (code) =>
    code.replace(/\brequire\(("node:[^"]+")\)/g, 'process.getBuiltinModule($1)'),
};
