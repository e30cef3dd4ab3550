/**
 * docs/quick-start.md, followed to the letter in the applications that Nest's command line interface makes, for each
 * kind of modules; after each step, the application's own tests pass. It needs a registry of packages.
 */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { freePort } from '../../tools/dev-servers/src/free-port.js';
import { type Block, readDocument } from '../api/markdown.js';
import { eventually } from '../support/eventually.js';
import { openAdmin } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { GeneratedApp } from './generated-app.js';

const REDIS_OF_THE_PAGE = 'redis://localhost:6379';

const redis = useRedis();
const page = readDocument('docs/quick-start.md');
const readme = readDocument('README.md');
const steps = page.text.split(/^## (?=\d)/m).slice(1);
const [createEsm = '', createCjs = '', enter = '', install = ''] = commandsOf(1);

/** The applications in which each step is done, and how the page ends the imports of its files there. */
const APPS = [
  { create: createEsm, suffix: '.js' },
  { create: createCjs, suffix: '' },
].map((app) => ({ ...app, app: new GeneratedApp() }));

beforeAll(
  () => Promise.all(APPS.map(({ app, create }) => app.make(create, install))),
  // Downloads about 100 MB, unless npm has them from an earlier run.
  600_000,
);

afterAll(() => {
  for (const { app } of APPS) app.remove();
});

it('step 1: how to make an application with each kind of modules', () => {
  expect(steps.map((text) => text.split('\n')[0])).toEqual([
    '1. Install',
    '2. Lock a method',
    '3. Connect the locks to Redis',
    '4. See it work',
    '5. Test it',
    '6. Before it goes live',
  ]);
  expect([createEsm, createCjs, enter, install]).toEqual([
    expect.stringMatching(/^npx @nestjs\/cli@12 new shop /),
    expect.stringMatching(/^npx @nestjs\/cli@11 new shop /),
    'cd shop',
    'npm install nestjs-locked ioredis',
  ]);
  const [esm, cjs] = APPS.map(({ app }) => app.read('package.json'));
  expect(esm).toContain('"type":"module"');
  expect(cjs).not.toContain('"type"');
});

it('step 2: a locked method', () =>
  inEach(async (app, suffix) => {
    writeFiles(2, app, suffix);
    expect(await app.passedSpecs()).toBe(1);
  }));

it('step 3: the locks are connected to Redis', () =>
  inEach(async (app, suffix) => {
    expect(page.text).toContain(REDIS_OF_THE_PAGE);
    writeFiles(3, app, suffix);
    expect(await app.passedSpecs()).toBe(1);
  }));

it('step 4: two processes take turns, as the page shows', () =>
  inEach(async (app) => {
    const [build = '', first = '', second = '', curl = ''] = commandsOf(4);
    await app.run(build);
    const [one, two] = [String(await freePort()), String(await freePort())];
    await Promise.all([
      app.start(first.replace('3001', one)),
      app.start(second.replace('3002', two)),
    ]);
    const ask = curl.replace('3001', one).replace('3002', two);

    const [early, late] = await reportsOf(app, ask);
    expect([early?.name, late?.name]).toEqual(['sales', 'sales']);
    expect(early?.pid).not.toBe(late?.pid);
    expect(late && early && late.from >= early.to).toBe(true);

    const others = await reportsOf(app, ask.replace('sales', 'north').replace('sales', 'south'));
    const [north, south] = others;
    expect(north && south && north.from < south.to && south.from < north.to).toBe(true);
  }));

it('step 5: a test without Redis, and those of the whole application with it', () =>
  inEach(async (app, suffix) => {
    writeFiles(5, app, suffix);
    expect(await app.passedSpecs()).toBe(2);
    expect(page.text).toContain('`npm run test:e2e`');
    await app.run('npm run test:e2e');
  }));

it('step 6: a process that is told to stop finishes its request', () =>
  inEach(async (app) => {
    const [{ code: diff } = { code: '' }] = blocksOf(6);
    const before = diff.replaceAll(/^\+.*\n/gm, '').replaceAll(/^ /gm, '');
    const after = diff.replaceAll(/^[+ ]/gm, '');
    const main = app.read('src/main.ts');
    expect(main).toContain(before);
    expect(after).not.toBe(before);
    app.write('src/main.ts', main.replace(before, after));
    await app.run('npm run build');
    expect(await app.passedSpecs()).toBe(2);

    const port = await freePort();
    const stop = await app.start(`PORT=${port} npm run start:prod`);
    // A report of its own: one that waits for the other application is told that this one stops.
    const answer = fetch(`http://localhost:${port}/reports/of-${port}`);
    const admin = openAdmin(redis.url);
    await eventually(async () => expect(await admin.exists(`lock:{report:of-${port}}`)).toBe(1));
    stop();
    expect(await (await answer).text()).toContain(`built of-${port}`);
  }));

it('the first files of README.md compile in such an application, and its command is the same', () =>
  inEach(async (app, suffix) => {
    expect(readme.text).toContain(`\n${install}\n`);
    app.link('typeorm');
    const files = readme.blocks.slice(0, 2);
    expect(files.map(({ file }) => file)).toEqual(['stock.service.ts', 'app.module.ts']);
    for (const { code, file } of files)
      app.write(`src/readme/${file}`, importsOf(code, suffix) + code);
    app.write(
      'src/readme/stock.ts',
      'export class Stock {\n  id!: string;\n  quantity!: number;\n}\n',
    );
    await app.run('npm run build');
  }));

/** Does a step in all applications at the same time, because it waits most of the time. */
async function inEach(act: (app: GeneratedApp, suffix: string) => Promise<void>): Promise<void> {
  await Promise.all(
    APPS.map(async ({ app, suffix, create }) => {
      await act(app, suffix).catch((cause: unknown) => {
        throw new Error(`After ${create}: ${String(cause)}`, { cause });
      });
    }),
  );
}

/** The blocks of a step. */
function blocksOf(step: number): readonly Block[] {
  const text = steps[step - 1] ?? '';
  return page.blocks.filter(({ code }) => text.includes(`\n${code}\`\`\``));
}

function commandsOf(step: number): string[] {
  const shell = blocksOf(step).filter(({ language }) => language === 'sh');
  return shell.flatMap(({ code }) => code.trimEnd().split('\n'));
}

/** Writes the files of a step, with imports that end as the page says for this kind of modules. */
function writeFiles(step: number, app: GeneratedApp, suffix: string): void {
  const files = blocksOf(step).filter(({ file }) => file !== undefined);
  expect(files.length).toBeGreaterThan(0);
  for (const { file, code } of files) {
    const text = code.replaceAll(/(from '\.\/[^']+)\.js'/g, `$1${suffix}'`);
    app.write(`src/${file}`, text.replace(REDIS_OF_THE_PAGE, redis.url));
  }
}

interface Report {
  readonly pid: string;
  readonly name: string;
  readonly from: string;
  readonly to: string;
}

/** The reports that a command prints, in the order of their times. */
async function reportsOf(app: GeneratedApp, command: string): Promise<Report[]> {
  const output = await app.run(command.replaceAll('curl', 'curl --silent'));
  const lines = output.matchAll(/^process (\d+) built (\w+) from ([\d:.]+) to ([\d:.]+)$/gm);
  return [...lines]
    .map(([, pid = '', name = '', from = '', to = '']) => ({ pid, name, from, to }))
    .sort((a, b) => a.from.localeCompare(b.from));
}

/** README.md takes these imports for granted. */
const IMPORTS: Readonly<Record<string, readonly string[]>> = {
  '@nestjs/common': ['ConflictException', 'Injectable', 'Module'],
  'nestjs-locked': ['Locked', 'RedisLockModule'],
  typeorm: ['DataSource'],
  './stock': ['Stock'],
  './stock.service': ['StockService'],
};

function importsOf(code: string, suffix: string): string {
  const used = (name: string): boolean =>
    new RegExp(`\\b${name}\\b`).test(code) && !code.includes(`class ${name} `);
  return Object.entries(IMPORTS)
    .filter(([, names]) => names.some(used))
    .map(([from, names]) => {
      const file = from.startsWith('.') ? from + suffix : from;
      return `import { ${names.filter(used).join(', ')} } from '${file}';\n`;
    })
    .join('');
}
