import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TemporaryProject } from '../../../test/api/temporary-project.js';
import { useRedisServer } from '../../../test/support/own-redis.js';
import { type CommandResult, UNGUARDED } from '../../../test/support/run-command.js';
import { migrate, type Migration } from '../src/migrate.js';
import { openProject } from '../src/project.js';
import { report } from '../src/report.js';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const SAMPLES = fileURLToPath(new URL('samples', import.meta.url));
/** `MIGRATE_SAMPLES=write` writes what comes out into the samples, to be read before it is committed. */
const isWriting = process.env['MIGRATE_SAMPLES'] === 'write';

const COMPILER_OPTIONS = {
  ...{ module: 'nodenext', target: 'es2022', types: ['node'], rootDir: '.', outDir: 'out' },
  lib: ['es2022'], // not that of browsers, whose declarations take as long to read as all others
  ...{ strict: true, noImplicitOverride: true, exactOptionalPropertyTypes: true },
  ...{ experimentalDecorators: true, emitDecoratorMetadata: true, skipLibCheck: true },
};

/** A sample, in a project where the old libraries are not installed. */
class Sample {
  readonly project = new TemporaryProject();
  readonly names: readonly string[];

  constructor(readonly name: string) {
    this.names = readdirSync(join(SAMPLES, name, 'before'));
    this.project.link('@nestjs/common', '@nestjs/core', 'ioredis', 'nestjs-locked', '@types/node');
    this.project.link('reflect-metadata', 'rxjs');
    this.project.write('package.json', { type: 'module' });
    this.project.write('tsconfig.json', { compilerOptions: COMPILER_OPTIONS });
    for (const file of this.names) this.project.write(file, this.before(file));
  }

  before(file: string): string {
    return readFileSync(join(SAMPLES, this.name, 'before', file), 'utf8');
  }

  now(file: string): string {
    return readFileSync(join(this.project.folder, file), 'utf8');
  }

  run(...args: readonly string[]): Promise<CommandResult> {
    return this.project.node([MAIN, ...args], UNGUARDED);
  }
}

/** What a file of a sample should be; writes it first if that was asked for. */
function expected(path: string, actual: string): string {
  const file = join(SAMPLES, path);
  if (isWriting) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, actual);
  }
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

/** The declarations by which the codemod knows the old libraries: enough to compile what was left. */
function installOldLibraries(project: TemporaryProject): void {
  for (const [name, file] of [
    ['murlock', 'murlock'],
    ['redlock', 'redlock'],
    ['@sesamecare-oss/redlock', 'redlock'],
  ]) {
    const declarations = readFileSync(join(SAMPLES, `../../declarations/${file}.d.ts`), 'utf8');
    project.write(`node_modules/${name}/index.d.ts`, declarations);
    project.write(`node_modules/${name}/package.json`, { type: 'module', types: './index.d.ts' });
  }
}

describe.each(readdirSync(SAMPLES))('the sample %s', (name) => {
  let sample: Sample;
  let first: Migration;

  const run = (keyPrefix?: 'custom'): Migration =>
    migrate(openProject(join(sample.project.folder, 'tsconfig.json')), keyPrefix);
  const left = ({ findings }: Migration): string[] =>
    findings.flatMap(({ outcome, text }) => (outcome === 'left' ? [text] : []));

  beforeAll(() => {
    sample = new Sample(name);
    first = run();
  });

  afterAll(() => sample.project.remove());

  it('has a line for each place, and what is different', () => {
    const text = `${report(first, sample.project.folder, false)}\n`;
    expect(text).toBe(expected(`${name}/report.txt`, text));
  });

  it('becomes what the folder after has', () => {
    const changed = [...first.files.keys()].map((file) => basename(file)).sort();
    for (const [file, text] of first.files) {
      expect(text).toBe(expected(`${name}/after/${basename(file)}`, text));
      sample.project.write(basename(file), text);
    }
    const after = join(SAMPLES, name, 'after');
    expect(existsSync(after) ? readdirSync(after).sort() : []).toEqual(changed);
  });

  it('compiles afterwards, and has nothing but what was left for a second run', async () => {
    installOldLibraries(sample.project);
    const { code, stdout } = await sample.project.tsc('-p', '.', '--noEmit');
    expect([code, stdout]).toEqual([0, '']);
    // The module that had this option is gone.
    const second = run(name === 'murlock-custom' ? 'custom' : undefined);
    expect(second.findings.map(({ outcome }) => outcome)).toEqual(left(first).map(() => 'left'));
    expect(left(second)).toEqual(left(first));
  });
});

describe('a rewritten application', () => {
  const redis = useRedisServer();
  const rewritten: Sample[] = [];

  beforeAll(async () => {
    for (const name of ['murlock', 'redlock']) {
      const sample = new Sample(name);
      rewritten.push(sample);
      const dry = await sample.run();
      expect([dry.code, dry.stderr]).toEqual([0, '']);
      for (const file of sample.names) expect(sample.now(file)).toBe(sample.before(file));
      const { code, stdout } = await sample.run('--write');
      expect([code, stdout.split('\n').length]).toEqual([0, dry.stdout.split('\n').length]);
      // What the report leaves to be removed by hand.
      sample.project.write('redlock.provider.ts', '');
      sample.project.write('run.ts', PROGRAMS[name] ?? '');
      expect(await sample.project.tsc('-p', '.')).toMatchObject({ code: 0, stdout: '' });
    }
  });

  afterAll(() => rewritten.forEach(({ project }) => project.remove()));

  it.each([0, 1])('lets one caller in at a time: %i', async (index) => {
    const { project } = rewritten[index] as Sample;
    const run = await project.node(['out/run.js'], { REDIS_URL: redis.url });
    expect([run.code, run.stderr]).toEqual([0, '']);
    const counts = Object.values(JSON.parse(run.stdout) as Record<string, number[]>);
    expect(counts.length).toBeGreaterThan(2);
    for (const each of counts) expect([each.length, Math.max(...each)]).toEqual([5, 1]);
  });
});

/** Programs that call everything five times at once, and print how many were inside at most. */
const PROGRAMS: Readonly<Record<string, string>> = {
  murlock: `
    import { NestFactory } from '@nestjs/core';
    import { AppModule } from './app.module.js';
    import { OrdersService } from './orders.service.js';
    import { WalletService } from './wallet.service.js';

    const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
    const [orders, wallet] = [app.get(OrdersService), app.get(WalletService)];
    const five = async (call: () => Promise<number>) => {
      orders.inside.most = wallet.inside.most = 0;
      return Promise.all(Array.from({ length: 5 }, call));
    };
    const order = { id: 7, shop: { id: 's' } };
    console.log(JSON.stringify({
      take: await five(() => orders.take('1')),
      book: await five(() => orders.book(order, 'acme')),
      close: await five(() => orders.close(order)),
      pay: await five(() => orders.pay({ userId: 'u' }, { transactionId: 't' })),
      refund: await five(() => orders.refund({ userId: 'u' })),
      ship: await five(() => orders.ship('1')),
      count: await five(() => orders.count('1')),
      process: await five(async () => (await orders.process({ id: '1' }, [], 'c')) - 1),
      report: await five(() => orders.report()),
      wallet: await five(() => wallet.pay('w')),
      audit: await five(() => wallet.audit('w', 1_000)),
    }));
    await app.close();
  `,
  redlock: `
    import { NestFactory } from '@nestjs/core';
    import { Redis } from 'ioredis';
    import { RedisLockModule } from 'nestjs-locked';
    import { PaymentsService } from './payments.service.js';

    const connection = process.env['REDIS_URL'] ?? '';
    const redis = new Redis(connection);
    const root = {
      module: class Root {},
      imports: [RedisLockModule.forRoot({ connection })],
      providers: [PaymentsService, { provide: Redis, useValue: redis }],
    };
    const app = await NestFactory.createApplicationContext(root, { logger: false });
    const payments = app.get(PaymentsService);
    const five = async (call: () => Promise<unknown>) => {
      payments.inside.most = 0;
      return Promise.all(Array.from({ length: 5 }, async () => (await call(), payments.inside.most)));
    };
    console.log(JSON.stringify({
      pay: await five(() => payments.pay('a')),
      transfer: await five(() => payments.transfer('a', 'b')),
      withAccount: await five(() => payments.withAccount('a', 2_000, () => payments.inside.work())),
    }));
    await app.close();
    await redis.quit();
  `,
};

describe('nestjs-locked-migrate', () => {
  it('finds nothing in a project that uses neither library', async () => {
    const project = new TemporaryProject();
    project.write('tsconfig.json', { compilerOptions: COMPILER_OPTIONS });
    project.write('main.ts', 'export const using = 1;');
    const { code, stdout } = await project.node([MAIN, '--project', '.'], UNGUARDED);
    project.remove();
    expect([code, stdout]).toEqual([0, 'There is no use of murlock or redlock.\n']);
  });

  it('says what is wrong with its arguments', async () => {
    const project = new TemporaryProject();
    const message = async (...args: readonly string[]): Promise<[number, string]> => {
      const { code, stderr } = await project.node([MAIN, ...args], UNGUARDED);
      return [code, stderr];
    };
    expect(await message()).toEqual([
      1,
      expect.stringMatching(/^There is no .*tsconfig\.json: run/),
    ]);
    expect(await message('--key-prefix', 'mine')).toEqual([
      1,
      "--key-prefix is 'mine': give default or custom\nnpx nestjs-locked-migrate --help says more.\n",
    ]);
    expect(await message('--wirte')).toEqual([1, expect.stringContaining("'--wirte'")]);
    project.remove();
  });

  it('leaves @MurLock where nobody can see how its keys begin, unless it is told', async () => {
    const project = new TemporaryProject();
    const method = "@MurLock(5000, 'id') async take(id: string): Promise<void> {}";
    project.write('tsconfig.json', { compilerOptions: COMPILER_OPTIONS });
    project.write('a.ts', `import { MurLock } from 'murlock'; export class A { ${method} }`);
    const unknown = await project.node([MAIN], UNGUARDED);
    const custom = await project.node([MAIN, '--key-prefix', 'custom'], UNGUARDED);
    const usual = await project.node([MAIN, '--key-prefix', 'default'], UNGUARDED);
    project.remove();
    expect(unknown.stdout).toMatch(/^left .*pass --key-prefix default or custom/);
    expect(custom.stdout).toContain("→ @Locked('<id>')");
    expect(usual.stdout).toContain("→ @Locked('A:take:<id>')");
  });
});
