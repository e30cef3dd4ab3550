/** The recipes of docs/idempotency.md, docs/cold-cache.md and docs/tenants.md, and what breaks without each part. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Document, readDocument, ROOT } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { usePostgres } from '../support/databases.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const database = usePostgres();
const redis = useRedisServer();
const project = new TemporaryProject();

/** What the pages use without an import: a reader knows it from the other pages. */
const IMPORTS = `import { Injectable, Module } from '@nestjs/common';
  import { lockKey, Locked, RedisLockModule } from 'nestjs-locked';
  import { DataSource } from 'typeorm';
  void [Injectable, Module, lockKey, Locked, RedisLockModule, DataSource];`;

/** A page as it is, and once more without a part of it. */
interface Variant {
  readonly folder: string;
  readonly page: Document;
  readonly program: string;
  readonly change?: (code: string) => string;
}

const idempotency = readDocument('docs/idempotency.md');
const coldCache = readDocument('docs/cold-cache.md');
const tenants = readDocument('docs/tenants.md');

const VARIANTS: readonly Variant[] = [
  { folder: 'payments', page: idempotency, program: 'payments.ts' },
  { folder: 'prices', page: coldCache, program: 'prices.ts' },
  {
    folder: 'prices-without-lock',
    page: coldCache,
    program: 'prices.ts',
    change: (code) => code.replace(/^ *@Locked.*\n/m, ''),
  },
  {
    folder: 'prices-without-second-look',
    page: coldCache,
    program: 'prices.ts',
    change: (code) => code.replace(/^ *if \(cached !== null\).*\n/m, 'void cached;'),
  },
  { folder: 'tenants', page: tenants, program: 'tenants.ts' },
  {
    folder: 'tenants-without-lock-key',
    page: tenants,
    program: 'tenants.ts',
    change: (code) => code.replace('lockKey`', '`'),
  },
];

beforeAll(async () => {
  project.link('nestjs-locked', 'ioredis', 'reflect-metadata', 'rxjs', '@types/node', 'nestjs-cls');
  project.link('@nestjs/common', '@nestjs/core', '@nestjs/platform-express', 'typeorm', 'pg');
  project.write('package.json', { type: 'module' });
  project.write('tsconfig.json', {
    extends: join(ROOT, 'tsconfig.base.json'),
    compilerOptions: {
      ...{ composite: false, declaration: false, declarationMap: false, rootDir: '.' },
      ...{ outDir: 'out' },
    },
    include: ['*/*.ts'],
  });
  for (const { folder, page, program, change = String } of VARIANTS) {
    const examples = page.blocks.filter(({ file }) => file !== undefined);
    const changed = examples.map(({ code }) => change(code));
    if (folder.includes('without')) {
      expect(changed).not.toEqual(examples.map(({ code }) => code));
    }
    examples.forEach(({ file = '' }, i) => {
      const code = changed[i]?.replaceAll('redis://localhost:6379', redis.url);
      // Work that lasts, so that there is somebody to wait for.
      const slow = code?.replace(
        'async issue(number: number): Promise<void> {}',
        'async issue(number: number): Promise<void> { await new Promise((end) => setTimeout(end, 300)); }',
      );
      project.write(`${folder}/${file}`, `${IMPORTS} ${slow}`);
    });
    const source = readFileSync(join(ROOT, 'test/projects/recipes', program), 'utf8');
    project.write(`${folder}/run.ts`, source);
  }
  expect(await project.tsc('-p', '.')).toMatchObject({ code: 0, stdout: '' });
});

afterAll(() => project.remove());

/** What the program of a variant prints. */
async function run<Printed>(folder: string, env: Record<string, string>): Promise<Printed> {
  const { code, stdout, stderr } = await project.node([`out/${folder}/run.js`], {
    REDIS_URL: redis.url,
    DATABASE_URL: database.url,
    ...env,
  });
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as Printed;
}

describe('docs/idempotency.md', () => {
  const [tables] = idempotency.blocks.filter(({ language }) => language === 'sql');
  const pay = (env: Record<string, string>): Promise<unknown[]> => run('payments', env);
  const payments = (): Promise<{ id: number; amount: number }[]> =>
    database.query('SELECT id, amount FROM payment');

  beforeEach(async () => {
    await database.query('DROP TABLE IF EXISTS idempotency, payment');
    for (const statement of tables?.code.trim().split(/;\s*/).filter(Boolean) ?? []) {
      await database.query(statement);
    }
  });

  it('pays once for a request that comes ten times to two processes', async () => {
    const answers = await Promise.all([1, 2].map(() => pay({ KEY: uniqueKey(), CALLS: '5' })));
    expect(answers.map((of) => of.length)).toEqual([5, 5]);
    const same = uniqueKey();
    const [one = [], other = []] = await Promise.all(
      [1, 2].map(() => pay({ KEY: same, CALLS: '5' })),
    );
    const made = await payments();
    expect(made).toHaveLength(3);
    expect(new Set([...one, ...other])).toEqual(new Set([made.at(-1)?.id]));
  });

  it('pays once even if the lock keeps nobody out', async () => {
    const [one = [], other = []] = await Promise.all(
      ['one:', 'other:'].map((KEY_PREFIX) => pay({ KEY: 'same', CALLS: '5', KEY_PREFIX })),
    );
    const made = await payments();
    expect(made).toHaveLength(1);
    expect(new Set([...one, ...other])).toEqual(new Set([made[0]?.id]));
  });

  it('pays more often without the primary key', async () => {
    await database.query('ALTER TABLE idempotency DROP CONSTRAINT idempotency_pkey');
    await Promise.all(['one:', 'other:'].map((KEY_PREFIX) => pay({ KEY: 'same', KEY_PREFIX })));
    expect(await payments()).toHaveLength(2);
  });

  it('refuses the key of another request, and forgets a key whose work failed', async () => {
    const [first] = await pay({ KEY: 'same', AMOUNT: '5' });
    expect(await pay({ KEY: 'same', AMOUNT: '6' })).toEqual(['This key had another request']);
    expect(await payments()).toEqual([{ id: first, amount: 5 }]);

    await database.query('ALTER TABLE payment ADD CONSTRAINT small CHECK (amount < 10)');
    const [refused] = await pay({ KEY: 'large', AMOUNT: '10' });
    expect(refused).toContain('small');
    await database.query('ALTER TABLE payment DROP CONSTRAINT small');
    const [paid] = await pay({ KEY: 'large', AMOUNT: '10' });
    expect(await payments()).toContainEqual({ id: paid, amount: 10 });
  });
});

describe('docs/cold-cache.md', () => {
  /** How often an entry was computed, which 4 processes with 10 readers each ask for at once, and what they read. */
  async function readers(folder: string): Promise<{ computed: number; read: string[] }> {
    const sku = uniqueKey();
    const env = { SKU: sku, READERS: '10', PROCESSES: '4' };
    const read = await Promise.all([1, 2, 3, 4].map(() => run<string[]>(folder, env)));
    const computed = Number(await redis.admin.get(`computed:${sku}`));
    return { computed, read: [...new Set(read.flat())] };
  }

  it('computes an entry once for forty readers in four processes', async () => {
    expect(await readers('prices')).toEqual({ computed: 1, read: ['price 1'] });
  });

  it('computes it for each reader without the second look, or without the lock', async () => {
    expect((await readers('prices-without-second-look')).computed).toBe(40);
    expect((await readers('prices-without-lock')).computed).toBeGreaterThan(1);
  });
});

describe('docs/tenants.md', () => {
  it('has a key for each tenant, and refuses a call without one', async () => {
    expect(await run('tenants', {})).toEqual({
      twoTenants: ['invoice:a%3Ab:7', 'invoice:acme:7'],
      job: ['invoice:acme:7'],
      without: 'LOCK_KEY_INVALID',
      status: 500,
    });
  });

  it('is refused without a tenant, too, if the template is a plain one', async () => {
    expect(await run('tenants-without-lock-key', {})).toMatchObject({
      without: 'LOCK_KEY_INVALID',
    });
  });
});
