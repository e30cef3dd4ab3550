/** The examples of docs/when-not-to-lock.md and the one of docs/losing-a-lock.md, run on PostgreSQL. */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { readDocument } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { usePostgres } from '../support/databases.js';

const page = readDocument('docs/when-not-to-lock.md');
const statements = page.blocks.filter(({ language }) => language === 'sql');
const examples = [
  ...page.blocks.filter(({ file }) => file !== undefined),
  ...readDocument('docs/losing-a-lock.md').blocks.filter(({ file }) => file === 'fenced-update.ts'),
];

/** Calls each example from two sides at once. Its output is compared with what the pages say. */
const SCRIPT = `
import { DataSource } from 'typeorm';
import { TestLocks } from 'nestjs-locked/testing';
import { take } from './one-update.js';
import { pay } from './unique-index.js';
import { save } from './version-column.js';
import { reduce } from './for-update.js';
import { workOnOne } from './skip-locked.js';
import { setPrice } from './fenced-update.js';

const db = await new DataSource({ type: 'postgres', url: process.env['DATABASE_URL'] }).initialize();
const both = async (call: () => Promise<unknown>) => {
  const outcomes = await Promise.allSettled([call(), call()]);
  return outcomes.map((it) => (it.status === 'fulfilled' ? it.value ?? 'done' : (it.reason as Error).message)).sort();
};
const reset = () => db.query("UPDATE product SET quantity = 10, version = 1, fence = 0");
await db.query('ALTER TABLE product ADD price int, ADD fence bigint NOT NULL DEFAULT 0');
await reset();
const result: Record<string, unknown> = {};
result.update = await both(() => take(db, '42', 6));
result.index = await both(() => pay(db, 'A-2', 100));
await reset();
result.version = await both(() => save(db, { id: '42', quantity: 7, version: 1 }));
await reset();
result.forUpdate = await both(() => reduce(db, '42', (quantity) => quantity - 4));
const done: number[] = [];
await Promise.all([1, 2].map(() => workOnOne(db, async (id) => void done.push(id))));
result.jobs = [done.sort(), await workOnOne(db, async () => {})];
const locks = new TestLocks().service();
await setPrice(db, locks, '42', 5);
await db.query('UPDATE product SET fence = 9007199254740991');
result.fenced = await setPrice(db, locks, '42', 6).catch((error: Error) => error.message);
console.log(JSON.stringify(result));
await db.destroy();
`;

const database = usePostgres();
const project = new TemporaryProject();

beforeAll(() => {
  project.link('nestjs-locked', '@nestjs/common', 'typeorm', 'pg', 'reflect-metadata', 'rxjs');
  project.link('@types/node', 'ioredis');
  project.write('package.json', { type: 'module' });
  project.write('tsconfig.json', {
    compilerOptions: {
      ...{ module: 'nodenext', target: 'ES2022', lib: ['ES2023', 'ESNext.Disposable'] },
      ...{ types: ['node'], skipLibCheck: true, rootDir: '.', outDir: 'out' },
    },
  });
  for (const { file, code } of examples) {
    project.write(
      file as string,
      `import { ConflictException } from '@nestjs/common';
       import { lockKey, LockService } from 'nestjs-locked';
       import { DataSource } from 'typeorm';
       ${code}`,
    );
  }
  project.write('run.ts', SCRIPT);
});

afterAll(() => project.remove());

it('every statement runs, and every example does what it says', async () => {
  expect([statements.length, examples.length]).toEqual([6, 6]);
  for (const { code } of statements) await database.query(code);
  expect(await database.query('SELECT * FROM product')).toEqual([
    { id: '42', quantity: 5, version: 2 },
  ]);
  const { code, stdout } = await project.tsc('-p', '.');
  expect([code, stdout]).toEqual([0, '']);

  const run = await project.node(['out/run.js'], { DATABASE_URL: database.url });

  expect([run.code, run.stderr]).toEqual([0, '']);
  expect(JSON.parse(run.stdout)).toEqual({
    update: ['Not enough left', 'done'],
    index: [false, true],
    version: ['Somebody else has changed it: load it again', 'done'],
    forUpdate: [2, 6],
    jobs: [[1, 2], false],
    fenced: 'Somebody else has changed it since',
  });
});
