import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import * as library from 'nestjs-locked';
import * as testing from 'nestjs-locked/testing';
import ts from 'typescript';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEFAULT_SERVICE_OPTIONS } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { afterTest } from '../support/after-test.js';
import { startNest } from '../support/nest-app.js';
import { LIBRARY } from './entry-points.js';
import {
  type Block,
  type Document,
  readDocument,
  readDocuments,
  ROOT,
  tablesBelow,
} from './markdown.js';
import { TemporaryProject } from './temporary-project.js';

const documents = readDocuments();
const readme = readDocument('README.md');

let server: RedisServer;

beforeAll(async () => {
  server = await RedisServer.start();
});

afterAll(() => server.stop());

/** Where the names come from that examples use without an import: whoever copies one knows, or is told above. */
const IMPORTS: Readonly<Record<string, readonly string[]>> = {
  'nestjs-locked': Object.keys(library),
  'nestjs-locked/testing': Object.keys(testing),
  '@nestjs/common': [
    ...['ConflictException', 'Controller', 'Get', 'Injectable', 'Module', 'Param', 'Post'],
    ...['UseFilters', 'UseInterceptors'],
  ],
  '@nestjs/testing': ['Test'],
  '@nestjs-cls/transactional': ['ClsPluginTransactional', 'Transactional', 'TransactionHost'],
  '@nestjs-cls/transactional-adapter-typeorm': ['TransactionalAdapterTypeOrm'],
  'nestjs-cls': ['ClsModule'],
  typeorm: ['DataSource'],
  './stock.service.js': ['StockService'],
  './app.module.js': ['AppModule'],
  './fixtures.js': [
    ...['Cart', 'Order', 'Stock', 'dataSource', 'id', 'loadStock', 'locks', 'sendReport'],
    'supplier',
  ],
};

/** The pages whose `AppModule` is a whole application: its routes are looked at when it starts. */
const STARTED = ['docs/http.md', 'docs/graphql.md', 'docs/microservices.md'];

describe('TypeScript examples', () => {
  const project = new TemporaryProject();
  // The package's README has the same examples as that of the repository.
  const withExamples = documents.filter(
    ({ path, blocks }) => !path.startsWith('libs/') && blocks.some(isExample),
  );

  beforeAll(() => {
    project.link('nestjs-locked', 'ioredis', 'reflect-metadata', 'rxjs', 'typeorm', '@types/node');
    project.link('@nestjs/common', '@nestjs/core', '@nestjs/testing', 'nestjs-cls');
    project.link('@nestjs-cls/transactional', '@nestjs-cls/transactional-adapter-typeorm');
    project.link('@mikro-orm/core', '@mikro-orm/postgresql', 'kysely', 'pg', '@types/pg');
    project.link('@nestjs/apollo', '@nestjs/graphql', 'graphql', '@apollo/server');
    project.link('@nestjs/microservices', '@nestjs/websockets', '@nestjs/platform-express');
    project.link('postgres', 'sequelize', '@nestjs/schedule', '@nestjs/bullmq', 'bullmq');
    project.write('package.json', { type: 'module' });
    project.write('tsconfig.json', {
      extends: join(ROOT, 'tsconfig.base.json'),
      compilerOptions: {
        composite: false,
        declaration: false,
        declarationMap: false,
        rootDir: '.',
        outDir: 'out',
      },
      include: ['*/*.ts'],
    });
    for (const document of withExamples) {
      const folder = folderOf(document);
      for (const name of ['fixtures.ts', 'run.ts']) {
        project.write(
          `${folder}/${name}`,
          readFileSync(join(ROOT, 'test/api/readme', name), 'utf8'),
        );
      }
      for (const block of document.blocks.filter(isExample)) {
        project.write(`${folder}/${fileOf(block)}`, asModule(block));
      }
    }
  });

  afterAll(() => project.remove());

  it('compile, and do what they say', async () => {
    expect(withExamples).toContainEqual(readme);
    const { code, stdout } = await project.tsc('-p', '.');
    expect([code, stdout]).toEqual([0, '']);

    for (const document of withExamples) {
      const files = document.blocks
        .filter((block) => isExample(block) && !isProgram(block))
        .map((block) => fileOf(block).replace(/ts$/, 'js'));
      const script = `out/${folderOf(document)}/run.js`;
      if (document !== readme) {
        const imports = files.map((file) => `import './${folderOf(document)}/${file}';`);
        imports.push(`import { app } from './${folderOf(document)}/fixtures.js';`);
        const start = STARTED.includes(document.path) ? startOf(document) : '';
        project.write('out/load.js', `${imports.join(' ')} ${start} await app.close();`);
        const loaded = await project.node(['out/load.js'], { REDIS_URL: server.url });
        expect([document.path, loaded.code, loaded.stderr]).toEqual([document.path, 0, '']);
        continue;
      }
      const run = await project.node([script, '.', ...files], { REDIS_URL: server.url });
      expect([run.code, run.stderr]).toEqual([0, '']);
      expect(JSON.parse(run.stdout.trimEnd().split('\n').at(-1) ?? '')).toEqual({
        files: files.length,
        sold: 10,
        left: 0,
        mostOpenTransactions: 1,
        reports: document.text.includes('sendReport()') ? 1 : 0,
      });
    }
  }, 300_000);

  function startOf(document: Document): string {
    return `const { NestFactory } = await import('@nestjs/core');
      const { AppModule } = await import('./${folderOf(document)}/app.module.js');
      const example = await NestFactory.create(AppModule, { logger: false, abortOnError: false });
      await example.init();
      await example.close();`;
  }

  function asModule({ code, file }: Block): string {
    const declared = [
      ...[...code.matchAll(/\b(?:class|const|function) (\w+)/g)].map(([, name]) => name),
      ...[...code.matchAll(/^import (?:type )?\{([^}]*)\}/gm)].flatMap(
        ([, names = '']) => names.match(/\w+/g) ?? [],
      ),
    ];
    const imports = Object.entries(IMPORTS).flatMap(([specifier, names]) => {
      const used = names.filter(
        (name) => new RegExp(`\\b${name}\\b`).test(code) && !declared.includes(name),
      );
      return used.length === 0 || file === 'fixtures.ts'
        ? []
        : `import { ${used.join(', ')} } from '${specifier}';`;
    });
    // On the first line, so that the lines of messages are those of the block.
    const head = `import 'reflect-metadata'; ${imports.join(' ')} export {};`;
    const calls = [...code.matchAll(/^async function (\w+)\(\)/gm)].map(
      ([, name]) => `await ${name}();`,
    );
    const body = code
      .replaceAll('redis://localhost:6379', server.url)
      .replaceAll(/^(\S.*); \/\/ → (.+)$/gm, 'same(await ($1), $2);');
    const compares = body === code ? '' : `import { deepEqual as same } from 'node:assert/strict';`;
    return `${head} ${compares} ${body}\n${calls.join('\n')}`;
  }
});

describe('options tables', () => {
  const [ofModule = [], ofCall = []] = tablesBelow('Options', readme).map((rows) =>
    rows.map(([name = '', value = '']) => [withoutQuotes(name), withoutQuotes(value)] as const),
  );

  it('name every option of the module, with its documented default', () => {
    const documented = [
      ...membersOf('core/lock.options.d.ts', 'LockServiceOptions'),
      ...membersOf('core/transaction.options.d.ts', 'TransactionOptions'),
      ...membersOf('nest/module/redis-lock.options.d.ts', 'RedisLockModuleOptions'),
      ...membersOf('nest/module/redis-lock.options.d.ts', 'RedisLockModuleExtras'),
    ];
    expect(sortedDefaults(ofModule)).toEqual(sortedDefaults(documented));
  });

  it('name the defaults that are applied', () => {
    const { transactions, ...numbers } = DEFAULT_SERVICE_OPTIONS;
    const { insideTransaction } = transactions;
    const applied = Object.entries({ ...numbers, insideTransaction: `'${insideTransaction}'` });
    const named = new Map(ofModule);
    for (const [name, value] of applied) {
      expect([name, named.get(name)?.replaceAll('_', '')]).toEqual([name, String(value)]);
    }
  });

  it('name every option of a call, with its documented default', () => {
    const documented = [
      ...membersOf('core/lock.options.d.ts', 'LockOptions'),
      ...membersOf('core/lock.options.d.ts', 'WithLockOptions'),
      ...membersOf('nest/decorator/locked.options.d.ts', 'LockedOptions'),
    ];
    const defaultsOfModule = ['waitMs', 'leaseMs', 'maxHoldMs'];
    expect(sortedDefaults(ofCall)).toEqual(
      sortedDefaults(documented.filter(([name]) => !defaultsOfModule.includes(name))),
    );
  });

  /** A default that is described and not a value stands for itself: it is compared by the reader. */
  function sortedDefaults(options: readonly (readonly [name: string, value: string])[]): string[] {
    return options
      .map(
        ([name, value]) => `${name}: ${/^('\w+:?'|[\d_]+|true|false)$/.test(value) ? value : ''}`,
      )
      .sort();
  }
});

it('errors table has every error with its class', () => {
  const [table = []] = tablesBelow('Errors', readme);
  const rows = table.map((cells) => cells.slice(0, 2).map(withoutQuotes));
  const errors = Object.entries(library).flatMap(([name, exported]) => {
    const isError = name.endsWith('Error') && name !== 'LockError';
    return isError ? [[new (exported as ErrorClass)('message', 'key', 0).code, name]] : [];
  });
  expect(rows.sort()).toEqual(errors.sort());
});

it('the Redis user of docs/installation.md may do what locks need', async () => {
  const { text } = readDocument('docs/installation.md');
  const [, rule = ''] = /^ACL SETUSER (.+)$/m.exec(text) ?? [];
  const admin = new Redis(server.url);
  afterTest(() => admin.disconnect());
  await admin.call('ACL', 'SETUSER', ...rule.split(' '));

  const connection = `redis://app:password@127.0.0.1:${server.port}`;
  const apps = await Promise.all(
    [1, 2].map(() =>
      startNest({ imports: [library.RedisLockModule.forRoot({ connection, leaseMs: 500 })] }),
    ),
  );
  const locks = apps.map((app) => app.get(library.LockService));
  let inside = 0;
  const calls = Array.from({ length: 10 }, async (_, call) =>
    locks[call % 2]?.withLock('key', async () => {
      expect(++inside).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, call === 0 ? 600 : 2));
      inside -= 1;
    }),
  );
  await Promise.all(calls);
  await locks[0]?.withLock('key', { label: 'test' }, async () => {
    for await (const { key } of locks[1]?.list() ?? []) expect(key).toBe('key');
    await locks[1]?.forceRelease('key');
  });
  const denied = (await admin.call('ACL', 'LOG')) as unknown[][];
  expect(denied.map((entry) => entry[entry.indexOf('object') + 1])).toEqual(
    expect.not.arrayContaining([expect.not.stringMatching(/^client\|/)]),
  );
});

describe.each(documents)('$path', ({ text, blocks }) => {
  it('names commands that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const commands = [...text.matchAll(/npm (?:run )?([\w:-]+)/g)].map(([, name = '']) => name);
    const known = [
      ...Object.keys(scripts),
      'ci',
      'install',
      'pack',
      'publish',
      'run',
      'start', // of an application that `nest new` has made
      'workspaces',
      'stops',
      'warns',
    ];
    expect(commands.filter((name) => !known.includes(name))).toEqual([]);
  });

  it('has no example in a language that is not checked', () => {
    const languages = blocks.map(({ language }) => language);
    expect(
      languages.filter((language) => ['typescript', 'js', 'javascript', 'tsx'].includes(language)),
    ).toEqual([]);
  });
});

type ErrorClass = new (...args: unknown[]) => { code: string };

function isExample({ language }: Block): boolean {
  return language === 'ts';
}

/** A whole application, which the test of its page runs. */
function isProgram({ file }: Block): boolean {
  return file === 'main.ts';
}

function folderOf({ path }: Document): string {
  return path.replaceAll(/\W/g, '-');
}

function fileOf({ file, line }: Block): string {
  return file ?? `line-${line}.ts`;
}

/** A cell without the marks of code; `'lock:'` keeps its quotes, which belong to the text. */
function withoutQuotes(cell: string): string {
  return cell.replaceAll('`', '');
}

/** The members of an interface with their `@default`, if they have one. */
function membersOf(file: string, interfaceName: string): [name: string, value: string][] {
  const source = ts.createSourceFile(
    file,
    readFileSync(join(LIBRARY, 'dist', file), 'utf8'),
    ts.ScriptTarget.Latest,
    true,
  );
  const declaration = source.statements.find(
    (statement) => ts.isInterfaceDeclaration(statement) && statement.name.text === interfaceName,
  ) as ts.InterfaceDeclaration;
  return declaration.members.map((member) => [
    member.name?.getText() ?? '',
    ts
      .getJSDocTags(member)
      .filter(({ tagName }) => tagName.text === 'default')
      .map(({ comment }) => ts.getTextOfJSDocComment(comment))
      .join(''),
  ]);
}
