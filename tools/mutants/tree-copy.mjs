/**
 * The built copy of the tree in which mutants live: one file is compiled for each, where a mutation tool builds all.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { mutate } from './mutate.mjs';

const LIBRARY = 'libs/nestjs-locked';
/** What specs, torture and the simulator run: compiling it takes a minute, copying it does not. */
const BUILT = [
  `${LIBRARY}/dist`,
  ...['check-history', 'dev-servers', 'kit', 'simulate', 'spec', 'torture'].map(
    (tool) => `tools/${tool}/dist`,
  ),
];

/**
 * A copy of the working tree, with what was built, in which one file at a time is another one. The working tree is
 * never touched.
 */
export class TreeCopy {
  #root;
  #typescript;
  #isBundled = true;

  constructor(root, folder) {
    this.#root = root;
    this.folder = folder;
    this.#typescript = createRequire(join(root, 'package.json'))('typescript');
  }

  /** @param root the tree, which must have been built */
  static make(root) {
    const folder = mkdtempSync(join(tmpdir(), 'mutants-'));
    const copy = new TreeCopy(root, folder);
    try {
      for (const file of filesOf(root)) copyOne(root, folder, file);
      for (const built of BUILT) copyOne(root, folder, built);
      linkModules(join(root, 'node_modules'), join(folder, 'node_modules'));
    } catch (error) {
      copy.remove();
      throw error;
    }
    return copy;
  }

  /**
   * Reads the file from the working tree, changes it, and puts it into the copy: as source, and compiled. @throws
   * MutantError
   */
  apply(mutant) {
    const source = readFileSync(join(this.#root, mutant.file), 'utf8');
    this.#put(mutant.file, mutate(source, mutant));
  }

  restore({ file }) {
    this.#put(file, readFileSync(join(this.#root, file), 'utf8'));
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Types are not checked: a mutant may break a rule of style, such as a name that is not used any more. */
  #put(file, text) {
    writeFileSync(join(this.folder, file), text);
    const built = relative(`${LIBRARY}/src`, file).replace(/\.ts$/, '.js');
    writeFileSync(join(this.folder, LIBRARY, 'dist/modules', built), this.#compiled(text, file));
    this.#isBundled = false;
  }

  /** Makes what is published, unless it is up to date: torture runs that, and so do many specs. It takes a while. */
  bundle() {
    if (this.#isBundled) return;
    const { status, stderr } = spawnSync(process.execPath, ['scripts/bundle.mjs', '--code'], {
      cwd: this.folder,
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`cannot bundle the library: ${stderr}`);
    this.#isBundled = true;
  }

  #compiled(text, file) {
    const ts = this.#typescript;
    const { options } = ts.getParsedCommandLineOfConfigFile(
      join(this.folder, LIBRARY, 'tsconfig.json'),
      {},
      { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} },
    );
    const compilerOptions = {
      ...options,
      // A single file is compiled without its package.json, which says that it is an ES module.
      module: ts.ModuleKind.ESNext,
      sourceMap: false,
      declaration: false,
    };
    return ts.transpileModule(text, { compilerOptions, fileName: join(this.folder, file) })
      .outputText;
  }
}

/** Everything that git knows or would take, except what was deleted. */
function filesOf(root) {
  const { stdout, status, stderr } = spawnSync(
    'git',
    ['ls-files', '-z', '--cached', '--others', '--exclude-standard'],
    { cwd: root, encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(`git cannot list the files of ${root}: ${stderr}`);
  return stdout.split('\0').filter((file) => file !== '' && existsSync(join(root, file)));
}

function copyOne(root, folder, path) {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  cpSync(join(root, path), join(folder, path), { recursive: true });
}

/** Packages are shared with the working tree; the links to our own lead into the copy. */
function linkModules(from, to) {
  mkdirSync(to);
  for (const name of readdirSync(from)) {
    const path = join(from, name);
    if (lstatSync(path).isSymbolicLink()) symlinkSync(readlinkSync(path), join(to, name));
    else if (basename(path).startsWith('@')) linkModules(path, join(to, name));
    else symlinkSync(path, join(to, name));
  }
}
