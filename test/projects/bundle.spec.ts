import { afterAll, describe, expect, it } from '@jest/globals';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ROOT } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';

const SCRIPTS = pathToFileURL(`${ROOT}/scripts/package/`).href;
const MANIFEST = {
  type: 'module',
  exports: { '.': { import: { default: './dist/index.js' } } },
  dependencies: { acorn: '*' },
  peerDependencies: { rxjs: '*' },
};

describe('the bundler', () => {
  const projects: TemporaryProject[] = [];
  afterAll(() => projects.forEach((project) => project.remove()));

  /** A library of these modules, with fields of its package.json, and the result of bundling it. */
  const bundle = async (modules: Record<string, string>, fields: object = {}) => {
    const project = new TemporaryProject();
    projects.push(project);
    project.write('package.json', { ...MANIFEST, ...fields });
    for (const [path, text] of Object.entries(modules)) project.write(`dist/modules/${path}`, text);
    project.write(
      'bundle.mjs',
      `import { BuiltLibrary } from '${SCRIPTS}built-library.mjs';
       import { bundleCode } from '${SCRIPTS}bundle-code.mjs';
       await bundleCode(new BuiltLibrary(import.meta.dirname)).catch(({ message }) => console.log(message));`,
    );
    const { stdout, stderr } = await project.node(['bundle.mjs']);
    expect(stderr).toBe('');
    return { project, message: stdout };
  };

  it('puts code that needs no peer into CommonJS only, and builds the rest in both kinds', async () => {
    const { project, message } = await bundle({
      'index.js': `export { first } from './a/first.js'; export { id } from './b/id.js';`,
      'a/first.js': `import { firstValueFrom } from 'rxjs'; import { id } from '../b/id.js';
        export const first = () => [firstValueFrom, id()];`,
      'b/id.js': `import { randomUUID } from 'node:crypto'; export const id = () => randomUUID();`,
    });
    expect(message).toBe('');
    project.link('rxjs');
    project.write(
      'both.mjs',
      `import * as esm from './dist/index.js';
       import cjs from './dist/cjs/index.js';
       console.log(esm.id === cjs.id, esm.first === cjs.first, esm.first().length);`,
    );
    expect((await project.node(['both.mjs'])).stdout).toBe('true false 2\n');
  });

  it('loads a dependency and dynamic imports when they are used', async () => {
    const { project, message } = await bundle({
      'index.js': `export { parsed } from './a/parsed.js';
        export const more = async () => (await import('./b/more.js')).more();`,
      'a/parsed.js': `import { parse } from 'acorn'; export const parsed = () => parse('1').type;`,
      'b/more.js': `import { later } from '../c/later.js'; import { of } from 'rxjs';
        export const more = () => [later, of].length;`,
      'c/later.js': `export const later = 1;`,
    });
    expect(message).toBe('');
    project.link('acorn', 'rxjs');
    project.write(
      'later.cjs',
      `const loaded = (name) => Object.keys(require.cache).some((path) => path.includes(name));
       const { more, parsed } = require('./dist/cjs/index.js');
       console.log(loaded('acorn'), parsed(), loaded('acorn'));
       console.log(loaded('shared/c.js'));
       more().then((length) => console.log(length, loaded('shared/c.js')));`,
    );
    const { stdout } = await project.node(['later.cjs']);
    expect(stdout).toBe('false Program true\nfalse\n2 true\n');
  });

  it('makes a program an ES module only, and no part of what an entry point loads', async () => {
    const { project, message } = await bundle(
      {
        'index.js': `export { one } from './a/one.js';`,
        'a/one.js': `export const one = 1;`,
        'cli/main.js': `#!/usr/bin/env node
          import { of } from 'rxjs'; import { one } from '../a/one.js'; import { text } from './text.js';
          console.log(text, typeof of, one);`,
        'cli/text.js': `export const text = 'runs';`,
      },
      { bin: { program: './dist/cli/main.js' } },
    );
    expect(message).toBe('');
    project.link('rxjs');
    expect((await project.node(['dist/cli/main.js'])).stdout).toBe('runs function 1\n');
    expect(readFileSync(join(project.folder, 'dist/cli/main.js'), 'utf8')).toMatch(/^#!\/usr/);
    expect(existsSync(join(project.folder, 'dist/cjs/cli'))).toBe(false);
    project.write(
      'load.cjs',
      `require('./dist/cjs/index.js');
       console.log(Object.keys(require.cache).filter((path) => path.includes('cli')).length);`,
    );
    expect((await project.node(['load.cjs'])).stdout).toBe('0\n');
  });

  it('keeps CommonJS as strict as the modules are', async () => {
    const { project } = await bundle({
      'index.js': `import { of } from 'rxjs'; export { core } from './a/core.js';
        export const nest = function () { return [this, of]; };`,
      'a/core.js': `export const core = function () { return this; };`,
    });
    project.link('rxjs');
    project.write(
      'unbound.mjs',
      `import cjs from './dist/cjs/index.js';
       const { core, nest } = cjs;
       console.log(core(), nest()[0]);`,
    );
    expect((await project.node(['unbound.mjs'])).stdout).toBe('undefined undefined\n');
  });

  it('keeps the names of two classes with the same name', async () => {
    const { project, message } = await bundle({
      'index.js': `export { A } from './a/a.js'; export { B } from './a/b.js';`,
      'a/a.js': `class Same {} export const A = Same;`,
      'a/b.js': `class Same {} export const B = Same;`,
    });
    expect(message).toBe('');
    project.write(
      'names.mjs',
      `import { A, B } from './dist/index.js'; console.log(A.name, B.name, A === B);`,
    );
    expect((await project.node(['names.mjs'])).stdout).toBe('Same Same false\n');
  });

  it.each([
    [
      'a package that is not declared',
      { 'index.js': `import 'typeorm'; export {};` },
      `imports 'typeorm', which package.json does not declare`,
    ],
    [
      'a shared name that another module has',
      {
        'index.js': `export { same } from './a/a.js'; export { same as other } from './a/b.js';`,
        'a/a.js': `export const same = 1;`,
        'a/b.js': `export const same = 2;`,
      },
      'two modules of the bundle root export same',
    ],
    [
      'an export that does not exist',
      { 'index.js': `export { missing } from './a/a.js';`, 'a/a.js': `export const one = 1;` },
      'missing',
    ],
  ])('refuses %s', async (_, modules, message) => {
    expect((await bundle(modules as Record<string, string>)).message).toContain(message);
  });
});
