/** The TypeScript examples of README.md and of docs/, compiled and run in a project of their own. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as library from 'nestjs-locked';
import * as testing from 'nestjs-locked/testing';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Block, type Document, readDocument, readDocuments, ROOT } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { useRedisServer } from '../support/own-redis.js';

const documents = readDocuments();
const readme = readDocument('README.md');
const server = useRedisServer();

/** The sources of names that examples use without an import: a reader knows them, or the text above says so. */
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

/** The pages whose `AppModule` is a whole application: its routes are checked when it starts. */
const STARTED = ['docs/dashboard.md', 'docs/http.md', 'docs/graphql.md', 'docs/microservices.md'];

describe('TypeScript examples', () => {
  const project = new TemporaryProject();
  // The package's README has the same examples as that of the repository. quick-start.spec.ts runs those of its page.
  const withExamples = documents.filter(
    ({ path, blocks }) => !/^(?:libs\/|docs\/quick-start)/.test(path) && blocks.some(isExample),
  );

  beforeAll(() => {
    project.link('nestjs-locked', 'ioredis', 'reflect-metadata', 'rxjs', 'typeorm', '@types/node');
    project.link('@nestjs/common', '@nestjs/core', '@nestjs/testing', 'nestjs-cls');
    project.link('@nestjs-cls/transactional', '@nestjs-cls/transactional-adapter-typeorm');
    project.link('@mikro-orm/core', '@mikro-orm/postgresql', 'kysely', 'pg', '@types/pg');
    project.link('@nestjs/apollo', '@nestjs/graphql', 'graphql', '@apollo/server');
    project.link('@nestjs/microservices', '@nestjs/websockets', '@nestjs/platform-express');
    project.link('@nestjs/terminus', '@nestjs/observe');
    project.link('postgres', 'sequelize', '@nestjs/schedule', '@nestjs/bullmq', 'bullmq');
    project.link('node-cron');
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
          readFileSync(join(ROOT, 'test/projects/readme', name), 'utf8'),
        );
      }
      for (const block of document.blocks.filter(isExample)) {
        project.write(`${folder}/${fileOf(block)}`, asModule(block));
      }
    }
  });

  afterAll(() => project.remove());

  it('compile, and do what their comments say', async () => {
    expect(withExamples).toContainEqual(readme);
    const { code, stdout } = await project.tsc('-p', '.');
    expect([code, stdout]).toEqual([0, '']);

    for (const document of withExamples) {
      const files = document.blocks
        .filter(isExample)
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

function isExample({ language }: Block): boolean {
  return language === 'ts';
}

function folderOf({ path }: Document): string {
  return path.replaceAll(/\W/g, '-');
}

function fileOf({ file, line }: Block): string {
  return file ?? `line-${line}.ts`;
}
