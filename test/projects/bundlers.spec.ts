import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { join } from 'node:path';
import { ROOT } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';

/** The same application in every build. What it prints is the key of each call, or the error that its class causes. */
const SOURCES = join(ROOT, 'test/projects/bundlers');
const RIGHT = ['k:right'];

const decorators = { parser: { syntax: 'typescript', decorators: true }, target: 'es2022' };
const webpack = { target: 'node', entry: './js/app.js', experiments: { outputModule: true } };
const mangled = {
  'nestjs-locked': 'nestjs-locked',
  'nestjs-locked/testing': 'nestjs-locked/testing',
};

/** Code that writes `out/<build>.mjs`; it may use what was compiled by tsc. */
const BUILDS: Record<string, string> = {
  tsc: `await import('node:fs').then(({ writeFileSync }) => writeFileSync(out, "import '../js/app.js';"));`,
  ...esbuild('esbuild', {}),
  ...esbuild('esbuild, minified without names', { minifyWhitespace: true, minifySyntax: true }),
  ...esbuild('esbuild, minified', { minify: true }),
  ...packed('webpack', 'webpack', '{ minimize: false }'),
  ...packed('webpack, minified', 'webpack', '{}'),
  ...packed(
    'webpack, minified without names',
    'webpack',
    `{ minimizer: [new (await import('minimizer-webpack-plugin')).default({ terserOptions: { mangle: false } })] }`,
  ),
  ...packed('rspack', '@rspack/core', '{ minimize: false }'),
  ...packed('rspack, minified', '@rspack/core', '{}'),
  ...packed(
    'rspack, minified without names',
    '@rspack/core',
    `{ minimizer: [new bundler.SwcJsMinimizerRspackPlugin({ minimizerOptions: { mangle: false } })] }`,
  ),
  ...rolldown('rolldown', 'false'),
  ...rolldown('rolldown, minified', 'true'),
  ...rolldown('rolldown, minified without names', '{ mangle: false, compress: true }'),
  ...swc('swc', undefined),
  ...swc('swc, minified', { compress: true, mangle: true, module: true }),
  ...swc('swc, minified without names', { compress: true, mangle: false, module: true }),
};

function esbuild(name: string, minify: object): Record<string, string> {
  const options = {
    entryPoints: [join(SOURCES, 'app.ts')],
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true } },
    ...minify,
  };
  return {
    [name]: `const esbuild = await import('esbuild');
      await esbuild.build({ ...${JSON.stringify(options)}, outfile: out });`,
  };
}

function packed(name: string, bundler: string, optimization: string): Record<string, string> {
  return {
    [name]: `const imported = await import('${bundler}');
      const bundler = imported.rspack ?? imported.default;
      const optimization = ${optimization};
      await new Promise((resolve, reject) => bundler({
        ...${JSON.stringify(webpack)}, mode: 'production', context: import.meta.dirname, optimization,
        externalsType: 'module', externals: ${JSON.stringify(mangled)},
        output: { path: import.meta.dirname + '/out', filename: name + '.mjs', library: { type: 'module' } },
      }, (error, stats) => error || stats.hasErrors() ? reject(error ?? new Error(stats.toString())) : resolve()));`,
  };
}

function rolldown(name: string, minify: string): Record<string, string> {
  return {
    [name]: `const { rolldown } = await import('rolldown');
      const bundle = await rolldown({ input: 'js/app.js', external: /^nestjs-locked/, onLog() {} });
      await bundle.write({ file: out, format: 'es', minify: ${minify} });`,
  };
}

function swc(name: string, minify: object | undefined): Record<string, string> {
  const transform = { legacyDecorator: true, decoratorMetadata: true };
  const jsc = { ...decorators, transform, ...(minify && { minify }) };
  const options = { swcrc: false, jsc, minify: minify !== undefined };
  return {
    [name]: `const { readFileSync, writeFileSync } = await import('node:fs');
      const { transform } = await import('@swc/core');
      const source = readFileSync(${JSON.stringify(join(SOURCES, 'app.ts'))}, 'utf8');
      const { code } = await transform(source.replace("'./order.js'", "'../js/order.js'"), ${JSON.stringify(options)});
      writeFileSync(out, code);`,
  };
}

describe('keys by the names of parameters', () => {
  const project = new TemporaryProject();
  const results = new Map<string, Record<string, string | string[]>>();

  beforeAll(async () => {
    const packages = ['esbuild', 'webpack', '@rspack/core', 'minimizer-webpack-plugin', 'rolldown'];
    project.link('nestjs-locked', '@swc/core', '@types/node', 'reflect-metadata', ...packages);
    project.write('package.json', { type: 'module' });
    project.write('tsconfig.json', {
      extends: join(ROOT, 'tsconfig.base.json'),
      compilerOptions: {
        ...{ composite: false, incremental: false, declaration: false, declarationMap: false },
        ...{ rootDir: SOURCES, outDir: 'js', noCheck: true, sourceMap: false },
      },
      files: [join(SOURCES, 'app.ts')],
    });
    expect(await project.tsc('-p', '.')).toMatchObject({ code: 0, stdout: '' });
    for (const [build, code] of Object.entries(BUILDS)) {
      const name = build.replaceAll(/\W+/g, '-');
      project.write(
        `${name}.mjs`,
        `const name = '${name}';
         const out = import.meta.dirname + '/out/' + name + '.mjs';
         (await import('node:fs')).mkdirSync(import.meta.dirname + '/out', { recursive: true });
         ${code}
         await import('./out/' + name + '.mjs');`,
      );
      const { code: exit, stdout, stderr } = await project.node([`${name}.mjs`]);
      if (exit !== 0) throw new Error(`${build}: ${stderr}`);
      results.set(build, JSON.parse(stdout) as Record<string, string | string[]>);
    }
  }, 600_000); // sixteen builds, each in a process of its own
  afterAll(() => project.remove());

  it.each(Object.keys(BUILDS))('are never wrong: %s', (build) => {
    for (const [name, result] of Object.entries(results.get(build) ?? {})) {
      if (typeof result === 'string') expect([name, result]).toEqual([name, refusal()]);
      else expect([name, result]).toEqual([name, RIGHT]);
    }
  });

  it.each(Object.keys(BUILDS))('may be positions, @KeyParam or a function: %s', (build) => {
    expect(results.get(build)).toMatchObject({
      position: RIGHT,
      keyParam: RIGHT,
      keyFunction: RIGHT,
    });
  });

  it.each(Object.keys(BUILDS).filter((build) => !build.endsWith('minified')))(
    'are found if a build keeps them, or if a method has one parameter: %s',
    (build) => {
      expect(results.get(build)).toMatchObject({ kept: RIGHT, single: RIGHT, global: RIGHT });
    },
  );

  it.each(Object.keys(BUILDS).filter((build) => build.endsWith(', minified')))(
    'are refused if a minifier has replaced them: %s',
    (build) => {
      const { kept, oneOfTwo } = results.get(build) ?? {};
      expect(kept).toMatch(/<0> \w, <1> \w, as a minifier names them; keep parameter names, or/);
      expect(oneOfTwo).toMatch(/^Cannot bind <order> in .+use its position such as <0>, @KeyParam/);
    },
  );

  it.each(['esbuild', 'esbuild, minified without names'])(
    'are refused if it is not certain which one is meant: %s',
    (build) => {
      const { oneOfTwo, numbered } = results.get(build) ?? {};
      expect(oneOfTwo).toContain(
        "its parameters are <0> order2, <1> quantity; a bundler seems to have renamed 'order', because other code has that name; use its position, <0>,",
      );
      expect(numbered).toContain('its parameters are <0> order2, <1> order22; a bundler seems to');
      expect(numbered).toContain('use its position, <0> or <1>, ');
    },
  );

  it.each(['tsc', 'webpack', 'rspack', 'rolldown', 'swc'])('are all found: %s', (build) => {
    const values = Object.values(results.get(build) ?? {});
    expect(values).toEqual(values.map(() => RIGHT));
    expect(values).toHaveLength(8);
  });
});

/** An error that names the way out. */
function refusal(): unknown {
  return expect.stringMatching(/^Cannot bind <\w+> in .+; .*use its position.* <0>/);
}
