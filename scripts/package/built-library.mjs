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
    /** Packages that are installed with the library, whatever the application is. */
    this.dependencies = Object.keys(manifest.dependencies);
    this.packages = [...this.dependencies, ...Object.keys(manifest.peerDependencies ?? {})];
    const nameOf = (path) => path.replace(/^\.\/dist\/|\.js$/g, '');
    /** Their paths in `dist` and in `dist/modules`, without an extension. */
    this.entries = Object.values(manifest.exports)
      .filter((targets) => typeof targets !== 'string')
      .map((targets) => nameOf(targets.import.default));
    /** The same of the programs, which are ES modules, and have no declarations. */
    this.programs = Object.values(manifest.bin ?? {}).map(nameOf);
  }

  /**
   * @param {string} extension of the files
   * @returns the entry points, as bundlers want them
   */
  input(extension) {
    return this.#files(this.entries, extension);
  }

  /** @returns the entry points and programs, as bundlers want them */
  inputWithPrograms() {
    return this.#files([...this.entries, ...this.programs], '.js');
  }

  #files(names, extension) {
    return Object.fromEntries(names.map((name) => [name, join(this.modules, name + extension)]));
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

/** What both kinds of modules share, because it needs nothing but Node and what is installed with the library. */
export class SharedModules {
  /** The exported names of those that others import: modules that need peers, and the entry points. */
  exports = new Map();
  #library;
  #graph;
  #neededAtOnce;
  #verdicts = new Map();

  constructor(library, graph) {
    this.#library = library;
    this.#graph = graph;
    const entries = Object.values(library.inputWithPrograms());
    this.#neededAtOnce = reachedFrom(entries[0], graph);
    const others = [...graph.keys()].filter((id) => entries.includes(id) || !this.#isShared(id));
    const imported = others.flatMap((id) => importsOf(graph.get(id)));
    for (const id of imported.sort()) {
      if (!graph.has(id) || entries.includes(id) || !this.#isShared(id)) continue;
      this.exports.set(id, graph.get(id).exports);
    }
  }

  static async of(library) {
    return new SharedModules(library, await readGraph(library));
  }

  /** @returns where the module goes: `root` if the root entry point needs it at once, otherwise its folder */
  bundleOf(id) {
    return this.#neededAtOnce.has(id) ? 'root' : this.#library.pathOf(id).split('/')[0];
  }

  #isShared(id) {
    if (!this.#verdicts.has(id)) {
      const own = this.#graph.get(id);
      this.#verdicts.set(
        id,
        own === undefined
          ? id.startsWith('node:') || this.#library.dependencies.includes(id)
          : importsOf(own).every((imported) => this.#isShared(imported)),
      );
    }
    return this.#verdicts.get(id);
  }
}

const importsOf = ({ imports, importsLater }) => [...imports, ...importsLater];

/** The modules that run before the one that imports them, and that one. */
function reachedFrom(entry, graph) {
  const reached = new Set([entry]);
  for (const id of reached) graph.get(id)?.imports.forEach((imported) => reached.add(imported));
  return reached;
}

/** @returns a Map of modules: what each imports at once and by `import()`, and its exported names */
async function readGraph(library) {
  const graph = new Map();
  const bundle = await rolldown({
    input: library.inputWithPrograms(),
    platform: 'node',
    external: library.isExternal,
    onLog: refuse,
    plugins: [
      {
        name: 'graph',
        buildEnd() {
          for (const id of this.getModuleIds()) {
            if (!id.startsWith(library.modules)) continue;
            const { importedIds, dynamicallyImportedIds, exports } = this.getModuleInfo(id);
            graph.set(id, { imports: importedIds, importsLater: dynamicallyImportedIds, exports });
          }
        },
      },
    ],
  });
  await bundle.generate();
  await bundle.close();
  return graph;
}
