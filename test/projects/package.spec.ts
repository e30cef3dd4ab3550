import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { chmodSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LIBRARY } from '../api/entry-points.js';
import { importsOf } from '../api/module-imports.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { runCommand, UNGUARDED } from '../support/run-command.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const PROGRAMS = fileURLToPath(new URL('../../node_modules/.bin/', import.meta.url));
const PEERS = ['@nestjs/common', '@nestjs/core', 'ioredis', 'reflect-metadata', 'rxjs'];

interface Packed {
  readonly filename: string;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

let files: string[];
let unpackedSize: number;
let tarball: string;
let project: TemporaryProject;

beforeAll(async () => {
  project = new TemporaryProject();
  // Without `prepack`, which would rebuild while other tests run.
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', project.folder];
  const { stdout } = await runCommand('npm', pack, LIBRARY, UNGUARDED);
  const [packed] = JSON.parse(stdout) as [Packed];
  unpackedSize = packed.unpackedSize;
  files = packed.files.map(({ path }) => path);
  tarball = join(project.folder, packed.filename);
  project.copy('nestjs-locked', LIBRARY, files);
  project.copy('installed-twice', LIBRARY, files);
  project.link('acorn', '@types/node', ...PEERS);
});

afterAll(() => project.remove());

describe('npm pack', () => {
  // The former finds missing files that package.json names, the latter types that are missing or wrong.
  it.each([
    ['publint', ['run', '--strict'], 'All good!'],
    ['attw', ['--format', 'ascii', '--no-emoji'], 'No problems found'],
  ])('creates a package in which %s finds no fault', async (program, options, verdict) => {
    const args = [...options, tarball];
    const { code, stdout } = await runCommand(PROGRAMS + program, args, project.folder, UNGUARDED);
    expect([code, stdout]).toEqual([0, expect.stringContaining(verdict)]);
  });

  it('includes the bundles, their declarations, and the files for readers', () => {
    const around = files.filter((path) => !path.startsWith('dist/'));
    const tables = ['sql/lock_fence.mysql.sql', 'sql/lock_fence.postgres.sql'];
    const documents = ['CHANGELOG.md', 'LICENSE', 'README.md'];
    expect(around.sort()).toEqual([...documents, 'package.json', ...tables]);
  });

  it('creates a small package', () => {
    expect(files.length).toBeLessThan(300);
    expect(unpackedSize).toBeLessThan(1_510_000);
  });

  it('includes no file that no entry point leads to', () => {
    const reached = new Set<string>();
    for (const path of exportedFiles()) follow(path, reached);
    const built = files.filter((path) => path.startsWith('dist/'));
    expect(built.filter((path) => !reached.has(path))).toEqual(['dist/cjs/package.json']);
    expect([...reached].filter((path) => !built.includes(path))).toEqual([]);
  });

  it('has one copy of the code that needs no peer, which any bundler can put into an ES module', () => {
    const shared = files.filter((path) => path.startsWith('dist/cjs/shared/'));
    expect(shared.length).toBeGreaterThan(1);
    const imported = shared.flatMap(specifiersIn);
    expect(imported.filter((specifier) => !specifier.startsWith('./'))).toEqual(['acorn']);
    const others = files.filter((path) => path.endsWith('.js') && !shared.includes(path));
    const size = (paths: string[]): number => paths.map(read).join('').length;
    expect(size(shared)).toBeGreaterThan(2 * size(others));
  });
});

const read = (path: string): string => readFileSync(join(LIBRARY, path), 'utf8');

/** The files below dist that package.json names. */
function exportedFiles(): string[] {
  const named = [...read('package.json').matchAll(/"\.\/(dist\/[^"]+)"/g)];
  return named.map(([, path = '']) => path);
}

function specifiersIn(path: string): string[] {
  return importsOf(read(path)).map(({ specifier }) => specifier);
}

function follow(path: string, reached: Set<string>): void {
  if (reached.has(path)) return;
  reached.add(path);
  for (const specifier of specifiersIn(path).filter((it) => it.startsWith('.'))) {
    const target = posix.join(posix.dirname(path), specifier);
    follow(path.endsWith('.d.ts') ? target.replace(/\.js$/, '.d.ts') : target, reached);
  }
}

/** Puts a locked method on a class, as a compiler would; `Locked` is that of one copy of the package. */
const STOCK = `
  let inside = 0, most = 0;
  class StockService {
    async take(id) {
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setTimeout(resolve, 2));
      inside -= 1;
      return most;
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(StockService.prototype, 'take');
  Locked('stock:<id>')(StockService.prototype, 'take', descriptor);
  Object.defineProperty(StockService.prototype, 'take', descriptor);
  class Root {}
  const root = { module: Root, imports: [LockTestingModule.forRoot()], providers: [StockService] };
  async function takeTwice() {
    const app = await NestFactory.createApplicationContext(root, { logger: false, abortOnError: false });
    const stock = app.get(StockService);
    await Promise.all([stock.take('a'), stock.take('a')]);
    await app.close();
    return most;
  }
`;

describe('in a project of its own', () => {
  const redis = useRedis();

  it('an ES module and a CommonJS file can each use it [D156]', async () => {
    project.write(
      'esm.mjs',
      `import { NestFactory } from '@nestjs/core';
       import { Locked } from 'nestjs-locked';
       import { LockTestingModule } from 'nestjs-locked/testing';
       ${STOCK}
       console.log(await takeTwice());`,
    );
    project.write(
      'common.cjs',
      `const { NestFactory } = require('@nestjs/core');
       const { Locked } = require('nestjs-locked');
       const { LockTestingModule } = require('nestjs-locked/testing');
       ${STOCK}
       takeTwice().then(console.log);`,
    );
    const results = await Promise.all([project.node(['esm.mjs']), project.node(['common.cjs'])]);
    for (const { code, stdout, stderr } of results)
      expect([code, stdout, stderr]).toEqual([0, '1\n', '']);
  });

  it.each([
    { commonJs: 'nestjs-locked', copies: { modules: 2, errors: 1 } },
    { commonJs: 'installed-twice', copies: { modules: 2, errors: 2 } },
  ])(
    'both kinds in one process share errors, tokens and decorators: $commonJs',
    async ({ commonJs, copies }) => {
      project.write(
        'both.mjs',
        `import { createRequire } from 'node:module';
       import { NestFactory } from '@nestjs/core';
       import * as esm from 'nestjs-locked';
       import { LockTestingModule, withTestLocks } from 'nestjs-locked/testing';
       const require = createRequire(import.meta.url);
       const cjs = require('${commonJs}');
       const { Locked } = cjs;
       ${STOCK}
       const error = new cjs.LockNotAcquiredError('busy', 'stock:1', 5);
       class Root2 {}
       cjs.InjectLockService()(Root2.prototype, 'locks');
       const app = await NestFactory.createApplicationContext({ module: Root2, imports: [LockTestingModule.forRoot()] }, { logger: false });
       console.log(JSON.stringify({
         copies: {
           modules: esm.RedisLockModule === cjs.RedisLockModule ? 1 : 2,
           errors: esm.LockError === cjs.LockError ? 1 : 2,
         },
         names: Object.keys(esm).join() === Object.keys(cjs).filter((name) => name !== '__esModule').sort().join(),
         same: error instanceof esm.LockNotAcquiredError,
         family: error instanceof esm.LockError && new esm.LockKeyError('x') instanceof cjs.LockError,
         other: error instanceof esm.LockStoreError,
         plain: new Error('x') instanceof esm.LockError,
         injected: app.get(Root2).locks === app.get(esm.LockService),
         decorator: await takeTwice(),
         withTestLocks: await withTestLocks(new StockService()).take('b'),
       }));
       await app.close();`,
      );
      const { stdout, stderr } = await project.node(['both.mjs']);
      expect(stderr).toBe('');
      expect(JSON.parse(stdout)).toEqual({
        copies,
        names: true,
        same: true,
        family: true,
        other: false,
        plain: false,
        injected: true,
        decorator: 1,
        withTestLocks: 1,
      });
    },
  );

  it.each([
    { entryPoint: 'nestjs-locked', loaded: 'core,nest,redis,root' },
    { entryPoint: 'nestjs-locked/transactions', loaded: 'core,root,transactions' },
    { entryPoint: 'nestjs-locked/testing', loaded: 'core,nest,redis,root,testing' },
  ])(
    '$entryPoint loads no other entry point, and no dependency before it is used',
    async ({ entryPoint, loaded }) => {
      project.write(
        'load.cjs',
        `require('${entryPoint}');
       const paths = Object.keys(require.cache);
       const shared = paths.map((path) => /parts[\\\\/](\\w+)\\.js$/.exec(path)?.[1]);
       console.log(shared.filter(Boolean).sort().join(), paths.some((path) => path.includes('acorn')));`,
      );
      expect((await project.node(['load.cjs'])).stdout).toBe(`${loaded} false\n`);
    },
  );

  it('creates a lock module after all modules were reset, as Jest may do before each test', async () => {
    project.write(
      'reset.cjs',
      `require('reflect-metadata');
       const { NestFactory } = require('@nestjs/core');
       const { RedisLockModule, LockService, LockStoreError } = require('nestjs-locked');
       const options = { connection: 'redis://127.0.0.1:1', startMs: 50, startWithoutRedis: true };
       setImmediate(async () => {
         for (const path of Object.keys(require.cache)) delete require.cache[path];
         const module = RedisLockModule.forRoot(options);
         const app = await NestFactory.createApplicationContext(module, { logger: false });
         await app.get(LockService).ping().catch((error) => console.log(error instanceof LockStoreError));
         await app.close();
       });`,
    );
    expect((await project.node(['reset.cjs'])).stdout).toBe('true\n');
  });

  it.each([
    { type: 'module', ioredis: 'ioredis' },
    { type: 'commonjs', ioredis: 'ioredis5' },
  ])(
    'its program runs in a project of type $type that has $ioredis and no Nest',
    async ({ type, ioredis }) => {
      const empty = new TemporaryProject();
      try {
        empty.write('package.json', { type });
        empty.copy('nestjs-locked', LIBRARY, files);
        empty.linkAs('ioredis', ioredis);
        const { bin } = JSON.parse(read('package.json')) as { bin: Record<string, string> };
        const program = join(
          empty.folder,
          'node_modules/nestjs-locked',
          bin['nestjs-locked'] ?? '',
        );
        chmodSync(program, 0o755); // as npm does
        const key = uniqueKey('packed');
        const args = ['inspect', key, '--json', '--redis', redis.url];
        const inspected = await runCommand(program, args, empty.folder);
        expect(inspected).toEqual({ code: 1, stdout: 'null\n', stderr: `Nobody holds ${key}.\n` });
        const loads = `import(${JSON.stringify(program)})`; // which runs it
        const evaluated = await empty.node([`--input-type=${type}`, '-e', loads]);
        expect(evaluated.code).toBe(2);
        expect(evaluated.stderr).toContain('Write a command');
      } finally {
        empty.remove();
      }
    },
  );

  it('its types are found in every way in which TypeScript looks for modules', async () => {
    const projects = [
      // Our own declarations are checked once here, and in every way by `npm run matrix`.
      {
        module: 'nodenext',
        moduleResolution: 'nodenext',
        extensions: ['mts', 'cts'],
        skipLibCheck: false,
      },
      { module: 'node16', moduleResolution: 'node16', extensions: ['mts', 'cts'] },
      { module: 'esnext', moduleResolution: 'bundler', extensions: ['ts'] },
      { module: 'commonjs', moduleResolution: 'node10', extensions: ['ts'] },
    ].map(({ extensions, ...options }) => {
      const folder = options.moduleResolution;
      const consumers = extensions.map((extension) => `stock.${extension}`);
      for (const name of consumers) project.write(`${folder}/${name}`, CONSUMER);
      project.write(`${folder}/tsconfig.json`, {
        compilerOptions: { ...COMPILER_OPTIONS, ...options },
        files: consumers,
      });
      return folder;
    });
    const { code, stdout } = await project.tsc('-b', ...projects);
    expect([code, stdout]).toEqual([0, '']);
  });
});

const COMPILER_OPTIONS = {
  // No `lib`: the requirements of docs/installation.md must be enough, `AsyncDisposable` included.
  target: 'es2022',
  types: ['node'],
  strict: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  skipLibCheck: true,
  noEmit: true,
  // For node10, which is deprecated but still what many projects have.
  ignoreDeprecations: '6.0',
};

/** Uses every entry point, and shows that the types are not `any`. */
const CONSUMER = `
import { Locked, lockKey, LockError, LockService, type Lock, type LockErrorCode } from 'nestjs-locked';
import { withTestLocks } from 'nestjs-locked/testing';

export class StockService {
  @Locked('stock:<id>')
  async take(id: string, quantity: number): Promise<number> {
    return id.length + quantity;
  }

  @Locked((id: string) => lockKey\`stock:\${id}\`)
  async put(id: string): Promise<void> {}

  // @ts-expect-error the call becomes asynchronous
  @Locked('stock:<id>')
  find(id: string): number {
    return id.length;
  }
}

export const taken: Promise<number> = withTestLocks(new StockService()).take('a', 1);

export async function use(locks: LockService, error: unknown): Promise<LockErrorCode | undefined> {
  await using lock: Lock | null = await locks.tryAcquire(lockKey\`stock:\${1}\`);
  lock?.assertHeld();
  // @ts-expect-error the key is a text
  await locks.withLock(42, () => undefined);
  return error instanceof LockError ? error.code : undefined;
}
`;
