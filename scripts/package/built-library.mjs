/** What the compiler wrote, and which of it needs packages. */
import { rolldown } from 'rolldown';
import { readFileSync } from 'node:fs';
import { join, posix, relative, sep } from 'node:path';

/** The built library: its folders, entry points and declared packages. */
export class BuiltLibrary {
  /** @param {string} folder of its package.json */
  constructor(folder) {
    this.dist = join(folder, 'dist');
    this.modules = join(this.dist, 'modules');
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    this.packages = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies });
    /** Their paths in `dist` and in `dist/modules`, without an extension. */
    this.entries = Object.values(manifest.exports)
      .filter((targets) => typeof targets !== 'string')
      .map((targets) => targets.import.default.replace(/^\.\/dist\/|\.js$/g, ''));
  }

  /** @param {string} extension of the files @returns the entry points, as bundlers want them */
  input(extension) {
    return Object.fromEntries(
      this.entries.map((name) => [name, join(this.modules, name + extension)]),
    );
  }

  /** The path of a module below `dist/modules`, with `/`. */
  pathOf(id) {
    return relative(this.modules, id).split(sep).join(posix.sep);
  }

  /** For bundlers: packages stay outside, and one that is not declared ends the build. */
  isExternal = (specifier, importer) => {
    if (specifier.startsWith('node:')) return true;
    if (specifier.startsWith('.') || specifier.startsWith(this.dist)) return false;
    if (this.packages.some((name) => specifier === name || specifier.startsWith(`${name}/`))) {
      return true;
    }
    throw new Error(`${importer} imports '${specifier}', which package.json does not declare`);
  };
}

/** For bundlers: what they warn of is a mistake here, unless it is only that this machine is slow. */
export function refuse(_level, { code, message }) {
  if (code !== 'PLUGIN_TIMINGS') throw new Error(message);
}

/**
 * The modules that need nothing but Node, and that are imported from outside of these: from modules that need packages,
 * and by the entry points.
 *
 * @param {BuiltLibrary} library
 * @returns {Promise<Map<string, readonly string[]>>} the path of each, and its exported names
 */
export async function readSharedModules(library) {
  const graph = await readGraph(library);
  const entries = Object.values(library.input('.js'));
  const verdicts = new Map();
  const needsNodeOnly = (id) => {
    if (!verdicts.has(id)) {
      const own = graph.get(id);
      verdicts.set(
        id,
        own === undefined ? id.startsWith('node:') : own.imports.every(needsNodeOnly),
      );
    }
    return verdicts.get(id);
  };
  const outside = [...graph].filter(([id]) => entries.includes(id) || !needsNodeOnly(id));
  const shared = outside
    .flatMap(([, { imports }]) => imports)
    .filter((id) => graph.has(id) && !entries.includes(id) && needsNodeOnly(id));
  return new Map(shared.sort().map((id) => [id, graph.get(id).exports]));
}

/** @returns {Promise<Map<string, { imports: readonly string[], exports: readonly string[] }>>} */
async function readGraph(library) {
  const graph = new Map();
  const bundle = await rolldown({
    input: library.input('.js'),
    platform: 'node',
    external: library.isExternal,
    onLog: refuse,
    plugins: [
      {
        name: 'graph',
        buildEnd() {
          for (const id of this.getModuleIds()) {
            const { importedIds, exports } = this.getModuleInfo(id);
            if (id.startsWith(library.modules)) graph.set(id, { imports: importedIds, exports });
          }
        },
      },
    ],
  });
  await bundle.generate();
  await bundle.close();
  return graph;
}
