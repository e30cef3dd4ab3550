/** Bundles the code of the library; docs/adr/0031-bundles-share-what-needs-only-node.md says why in this way. */
import { rolldown } from 'rolldown';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { refuse, SharedModules } from './built-library.mjs';

const PREFIX = '\0shared:';

/** @param {import('./built-library.mjs').BuiltLibrary} library */
export async function bundleCode(library) {
  const shared = await SharedModules.of(library);
  const bundles = [...new Set([...shared.exports.keys()].map((id) => shared.bundleOf(id)))];
  const commonJs = join(library.dist, 'cjs');
  await write(library, {
    input: Object.fromEntries(bundles.map((name) => [name, PREFIX + name])),
    plugins: [
      entriesOf(shared),
      builtinModules,
      withoutLuaComments,
      shortExports,
      dependenciesOnUse(library),
    ],
    transform: { define: { 'import.meta.url': '__filename' } }, // createRequire takes both
    preserveEntrySignatures: 'allow-extension', // as includeDependenciesRecursively requires
    output: {
      format: 'cjs',
      dir: join(commonJs, 'shared'),
      // Node searches a CommonJS file that an ES module imports for names, which takes longer than to run it. So the
      // code is in files of its own.
      codeSplitting: {
        includeDependenciesRecursively: false,
        groups: bundles.map((name) => ({ name, test: (id) => shared.bundleOf(id) === name })),
      },
    },
  });
  for (const [format, dir, folder, input] of [
    ['esm', library.dist, 'cjs/shared', library.inputWithPrograms()],
    ['cjs', commonJs, 'shared', library.input('.js')],
  ]) {
    // Where it would be if the bundles were where the modules are.
    const fileOf = (id) => join(library.modules, folder, `${shared.bundleOf(id)}.js`);
    await write(library, {
      input,
      plugins: [linksTo(shared, fileOf), importsAtOnce],
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
    strict: output.format === 'cjs', // as ES modules always are: an unbound method must not get the global object
    chunkFileNames: 'parts/[name].js',
    // What is published is read and debugged, and names of classes are logged: only comments go.
    keepNames: true,
    minifyInternalExports: false,
    comments: { annotation: output.format === 'esm', jsdoc: false, legal: false },
    esModule: true,
  });
  await bundle.close();
}

/** Scripts for Redis are text, in which the bundler sees no comments. */
const withoutLuaComments = {
  name: 'without-lua-comments',
  transform: (code, id) => (id.endsWith('.lua.js') ? code.replace(/^ *-- .*\n/gm, '') : undefined),
};

/** Makes the entry points of the shared bundles: every name that is imported from outside of them. */
function entriesOf(shared) {
  return {
    name: 'entries',
    resolveId: (id) => (id.startsWith(PREFIX) ? id : undefined),
    load(id) {
      if (!id.startsWith(PREFIX)) return undefined;
      const bundle = id.slice(PREFIX.length);
      const own = [...shared.exports].filter(([module]) => shared.bundleOf(module) === bundle);
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
      if (resolved === null || !shared.exports.has(resolved.id)) return resolved;
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

/** What only our own files require needs no form of which Node can read the names. */
const shortExports = {
  name: 'short exports',
  renderChunk: (code, { isEntry }) =>
    isEntry
      ? code
      : code.replace(
          /\{\s+enumerable: true,\s+get: function \(\) \{\s+return (\w+);\s+\}\s+\}\);$/gm,
          '{ enumerable: true, get: () => $1 });',
        ),
};

/** What is imported in the background is required at once: a moment later, Jest may have reset its modules. */
const importsAtOnce = {
  name: 'imports at once',
  renderChunk: (code) =>
    code.replace(
      /\bPromise\.resolve\(\)\.then\(\(\) => (require\("[^"]+"\))\)/g,
      'new Promise((loaded) => loaded($1))',
    ),
};

/** A dependency is loaded when it is first used: acorn alone takes as long as a third of the library. */
const dependenciesOnUse = ({ dependencies }) => ({
  name: 'dependencies on use',
  renderChunk: (code) =>
    dependencies.reduce((text, name) => {
      const line = new RegExp(`^(?:let|const) (\\w+) = require\\("${name}"\\);\\n`, 'm');
      const variable = line.exec(text)?.[1];
      if (variable === undefined) return text;
      const uses = new RegExp(`\\b${variable}\\.`, 'g');
      return text.replace(line, '').replace(uses, `require("${name}").`);
    }, code),
});
