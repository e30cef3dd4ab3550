/** What is tried: each cell is one application, and what is expected of it. */
import { delimiter } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findServer, folderOf, startServer, versionOf } from './server-programs.mjs';
import { appModule, consumer, main, operators, spec, stockService } from './sources.mjs';

const nest11 = { '@nestjs/common': '^11', '@nestjs/core': '^11', '@nestjs/testing': '^11' };
const nest12 = { '@nestjs/common': '^12', '@nestjs/core': '^12', '@nestjs/testing': '^12' };
const common = {
  'reflect-metadata': '^0.2',
  rxjs: '^7',
  '@types/node': '^20',
  typescript: '~5.9.0',
};
const URL_OF_REDIS = `process.env['REDIS_URL'] as string`;

/** As \`nest new\` makes it, for either module system. */
const compilerOptions = {
  module: 'nodenext',
  moduleResolution: 'nodenext',
  target: 'ES2022',
  strict: true,
  skipLibCheck: true,
  esModuleInterop: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  outDir: 'dist',
  rootDir: 'src',
  types: ['node'],
};

/** Node prints the line on which an error was thrown; in a bundle, that is most of it. */
const LOAD_BUNDLE = `
  try {
    require('./bundle.js');
  } catch (error) {
    console.log(error.code + ': ' + error.message);
    process.exitCode = 1;
  }
`;

const REDIS_7 = { program: 'redis-server', major: 7, suite: 'bookworm' };
const REDIS_8 = { program: 'redis-server', major: 8, suite: 'trixie' };
const VALKEY_8 = { program: 'valkey-server', major: 8, suite: 'trixie' };

/** What depends on the server: the contract with RESP2 and RESP3, and each script and command for itself. */
const SPECS_OF_THE_STORE = [
  'test/redis/lock-store-contract.spec.ts',
  'test/cluster/contract.spec.ts',
  'test/redis/scripts',
  'test/redis/redis-lock-store',
  'test/redis/wait-replicas.spec.ts',
];
const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export const cells = [
  {
    name: 'nest12-esm-vitest',
    title: 'Nest 12, ioredis 6, ES modules, Vitest; and the application itself',
    async run(app) {
      await app.install({ ...nest12, ...common, ioredis: '^6', vitest: '^4' }, { type: 'module' });
      writeApp(app, { suffix: '.js' });
      app.write('src/stock.spec.ts', spec('.js', `import { describe, expect, it } from 'vitest';`));
      app.write('tsconfig.build.json', {
        extends: './tsconfig.json',
        exclude: ['**/*.spec.ts'],
        include: ['src'],
      });
      await app.run('vitest', ['run', '--root', '.']);
      await app.run('tsc', ['-p', 'tsconfig.build.json']);
      return exact(await app.run('node', ['dist/main.js']));
    },
  },
  {
    name: 'nest11-cjs-jest',
    title:
      'Nest 11, ioredis 5, CommonJS, Jest with ts-jest, configured as nest new does; and the application itself',
    async run(app) {
      const jest = {
        moduleFileExtensions: ['js', 'json', 'ts'],
        rootDir: 'src',
        testRegex: '.*\\.spec\\.ts$',
        transform: { '^.+\\.(t|j)s$': 'ts-jest' },
        testEnvironment: 'node',
      };
      const tools = { jest: '^30', 'ts-jest': '^29', '@types/jest': '^30' };
      await app.install({ ...nest11, ...common, ...tools, ioredis: '^5' }, { jest });
      writeApp(app, { suffix: '', types: ['node', 'jest'] });
      app.write('src/stock.spec.ts', spec(''));
      await app.run('jest', []);
      await app.run('tsc', ['-p', 'tsconfig.json']);
      return exact(await app.run('node', ['dist/main.js']));
    },
  },
  ...[11, 12].map((nest) => ({
    name: `nest${nest}-operators`,
    title: `Nest ${nest}: the dashboard on Express and Fastify, the health check, OpenTelemetry`,
    async run(app) {
      const ofNest = ['platform-express', 'platform-fastify', 'terminus'];
      await app.install(
        {
          ...(nest === 11 ? nest11 : nest12),
          ...Object.fromEntries(ofNest.map((name) => [`@nestjs/${name}`, `^${nest}`])),
          ...common,
          '@opentelemetry/api': '^1.7',
          ioredis: nest === 11 ? '^5' : '^6',
        },
        nest === 11 ? {} : { type: 'module' },
      );
      app.write('src/main.ts', operators);
      app.write('tsconfig.json', { compilerOptions, include: ['src'] });
      await app.run('tsc', ['-p', 'tsconfig.json']);
      return exact(await app.run('node', ['dist/main.js']));
    },
  })),
  ...['names', 'lockkey'].map((keys) => ({
    name: `bundled-${keys}`,
    title: `bundled and minified by esbuild, ${keys === 'names' ? 'keys by name: refused at load' : 'keys by @KeyParam'}`,
    async run(app) {
      await app.install({ ...nest11, ...common, ioredis: '^6', esbuild: '^0.25' });
      writeApp(app, { suffix: '' });
      if (keys === 'lockkey') {
        const named = stockService().replace('take(id: string', `take(@KeyParam('id') id: string`);
        app.write('src/stock.service.ts', named);
      }
      await app.run('tsc', ['-p', 'tsconfig.json']);
      const optional = [
        '@nestjs/microservices',
        '@nestjs/websockets',
        '@nestjs/platform-express',
        'class-transformer',
        'class-validator',
      ];
      const external = optional.flatMap((name) => [`--external:${name}`, `--external:${name}/*`]);
      const bundle = [
        'dist/main.js',
        '--bundle',
        '--minify',
        '--platform=node',
        '--outfile=bundle.js',
      ];
      await app.run('node', ['node_modules/esbuild/install.js']);
      await app.run('esbuild', [...bundle, ...external]);
      const { code, output } = await app.try('node', ['-e', LOAD_BUNDLE]);
      if (keys === 'lockkey') return exact(output);
      if (code !== 1 || !output.startsWith('LOCK_CONFIG_INVALID: Cannot bind <id>')) {
        throw new Error(`not refused at load:\n${output}`);
      }
      return `refused at load: ${output.trim()}`;
    },
  })),
  ...[
    { nest: 11, resolution: 'node10', module: 'commonjs', files: ['ts'] },
    { nest: 11, resolution: 'node16', module: 'node16', files: ['cts', 'mts'] },
    { nest: 11, resolution: 'nodenext', module: 'nodenext', files: ['cts', 'mts'] },
    { nest: 11, resolution: 'bundler', module: 'esnext', files: ['ts'] },
    { nest: 12, resolution: 'node16', module: 'node16', files: ['mts'] },
    { nest: 12, resolution: 'nodenext', module: 'nodenext', files: ['cts', 'mts'] },
    { nest: 12, resolution: 'bundler', module: 'esnext', files: ['ts'] },
  ].map(({ nest, resolution, module, files }) => ({
    name: `types-nest${nest}-${resolution}`,
    title: `moduleResolution ${resolution} with Nest ${nest} (${files.join(', ')}), skipLibCheck: false`,
    async run(app) {
      await app.install({
        ...(nest === 11 ? nest11 : nest12),
        ...common,
        ioredis: nest === 11 ? '^5' : '^6',
      });
      const options = { ...compilerOptions, module, moduleResolution: resolution };
      await compile(
        app,
        options,
        files.map((extension) => `stock.${extension}`),
      );
    },
  })),
  ...['5.4', '5.6', '5.8', '5.9', '6.0', '7.0'].map((version) => ({
    name: `typescript-${version}`,
    title: `TypeScript ${version}, target ES2022 without any lib, skipLibCheck: false`,
    async run(app) {
      await app.install({ ...nest11, ...common, typescript: `~${version}.0`, ioredis: '^5' });
      await compile(app, compilerOptions, ['stock.cts', 'stock.mts']);
      return `TypeScript ${(await app.run('tsc', ['--version'])).trim().replace('Version ', '')}`;
    },
  })),
  ...[
    { name: 'ioredis-5', client: { ioredis: '^5' }, options: '' },
    { name: 'ioredis-6-resp2', client: { ioredis: '^6' }, options: ', { protocol: 2 }' },
    { name: 'ioredis-6-resp3', client: { ioredis: '^6' }, options: ', { protocol: 3 }' },
    // The library itself asks for ioredis, whose types it names.
    { name: 'iovalkey', client: { iovalkey: '^0.4', ioredis: '^6' }, options: '' },
  ].map(({ name, client, options }) => ({
    name: `client-${name}`,
    title: `a client of ${Object.keys(client)[0]}${options} as connection`,
    async run(app) {
      await app.install({ ...nest12, ...common, ...client }, { type: 'module' });
      const from = Object.keys(client)[0];
      const imports = `import { Redis } from '${from}';\nconst client = new Redis(${URL_OF_REDIS}${options});`;
      writeApp(app, { suffix: '.js', connection: 'client', imports, end: 'process.exit()' });
      await app.run('tsc', ['-p', 'tsconfig.json']);
      return exact(await app.run('node', ['dist/main.js']));
    },
  })),
  {
    name: 'valkey-server',
    title: 'a Valkey server',
    run: (app) =>
      onServer(VALKEY_8, app, async (env) => {
        await app.install({ ...nest12, ...common, ioredis: '^6' }, { type: 'module' });
        writeApp(app, { suffix: '.js' });
        await app.run('tsc', ['-p', 'tsconfig.json']);
        return exact(await app.run('node', ['dist/main.js'], env)) ?? 'exact';
      }),
  },
  ...[REDIS_7, REDIS_8, VALKEY_8].map((wanted) => ({
    name: `servers-${wanted.program.replace('-server', '')}-${wanted.major}`,
    title: `the contract of every store and the scripts on ${wanted.program} ${wanted.major}, RESP2 and RESP3`,
    run: (app) => onServer(wanted, app, (env) => testsOfTheStore(app, env)),
  })),
];

/** Runs what is given the address of a server, and a PATH that leads to its program. */
async function onServer(wanted, app, act) {
  const program = findServer(wanted, app.folder);
  const server = await startServer(program, app.folder);
  try {
    const path = `${folderOf(program, app.folder)}${delimiter}${process.env['PATH']}`;
    const outcome = await act({ REDIS_URL: server.url, PATH: path });
    return `${wanted.program} ${versionOf(program)}: ${outcome}`;
  } finally {
    await server.stop();
  }
}

/** A small application with one service, and its compiler settings. */
function writeApp(
  app,
  { suffix, connection = URL_OF_REDIS, imports = '', end = '', types = ['node'] },
) {
  app.write('src/stock.service.ts', stockService());
  app.write('src/app.module.ts', appModule(connection, imports, suffix));
  app.write('src/main.ts', main(suffix, end));
  app.write('tsconfig.json', { compilerOptions: { ...compilerOptions, types }, include: ['src'] });
}

async function compile(app, options, files) {
  for (const name of files) app.write(`src/${name}`, consumer);
  app.write('tsconfig.json', {
    compilerOptions: { ...options, skipLibCheck: false },
    files: files.map((name) => `src/${name}`),
  });
  await app.run('tsc', ['-p', 'tsconfig.json']);
}

function exact(output) {
  if (!/^exact$/m.test(output)) throw new Error(`expected 'exact', got:\n${output}`);
  return undefined;
}

/** Runs specs of this tree, on the servers that `env` leads to. @returns {Promise<string>} how many passed */
async function testsOfTheStore(app, env) {
  const jest = ['--prefix', ROOT, 'run', '-s', 'test:jest', '--'];
  const output = await app.run('npm', [...jest, ...SPECS_OF_THE_STORE], env);
  const [line] = /^\d+ passed, 0 failed.*$/m.exec(output) ?? [];
  if (line === undefined) throw new Error(`no test has run:\n${output}`);
  return line;
}
