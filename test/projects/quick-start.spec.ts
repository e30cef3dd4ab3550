/** docs/quick-start.md, followed to the letter: its files in a project as `nest new` makes it, started twice. */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { freePort } from '../../tools/dev-servers/src/free-port.js';
import { readDocument } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { afterTest } from '../support/after-test.js';
import { endWithTests } from '../support/end-with-tests.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';

const REDIS_OF_THE_PAGE = 'redis://localhost:6379';

/** `src/main.ts` as `nest new` makes it, before the change that the page shows. */
const MAIN = `import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  await app.listen(process.env.PORT ?? 3000);
}
await bootstrap();
`;

const redis = useRedis();
const project = new TemporaryProject();
const page = readDocument('docs/quick-start.md');

beforeAll(async () => {
  project.link('nestjs-locked', 'ioredis', 'reflect-metadata', 'rxjs', '@types/node');
  project.link('@nestjs/common', '@nestjs/core', '@nestjs/platform-express');
  project.write('package.json', { type: 'module' });
  // The settings of `nest new --strict` with Nest 12, as far as they matter.
  project.write('tsconfig.json', {
    compilerOptions: {
      ...{ module: 'nodenext', moduleResolution: 'nodenext', target: 'ES2023', types: ['node'] },
      ...{ emitDecoratorMetadata: true, experimentalDecorators: true, isolatedModules: true },
      ...{ strict: true, strictPropertyInitialization: false, skipLibCheck: true },
      ...{ esModuleInterop: true, rootDir: 'src', outDir: 'dist', removeComments: true },
    },
    include: ['src'],
  });
  for (const { file, code } of page.blocks) {
    if (file !== undefined) {
      project.write(`src/${file}`, code.replace(REDIS_OF_THE_PAGE, redis.url));
    }
  }
  const { code: diff = '' } = page.blocks.find(({ language }) => language === 'diff') ?? {};
  const before = diff.replaceAll(/^\+.*\n/gm, '').replaceAll(/^ /gm, '');
  const after = diff.replaceAll(/^[+ ]/gm, '');
  expect(MAIN).toContain(before);
  expect(after).not.toBe(before);
  project.write('src/main.ts', MAIN.replace(before, after));
});

afterAll(() => project.remove());

it('two processes take turns, as the page shows', async () => {
  expect(page.text).toContain(REDIS_OF_THE_PAGE);
  const { code, stdout } = await project.tsc('-p', '.');
  expect([code, stdout]).toEqual([0, '']);
  const [first, second] = await Promise.all([start(), start()]);

  const reports = await Promise.all([reportOf(first, 'sales'), reportOf(second, 'sales')]);
  const [early, late] = reports.sort((a, b) => a.from.localeCompare(b.from));
  expect(late?.from).toBeDefined();
  expect(late && early && late.from >= early.to).toBe(true);
  expect(new Set(reports.map(({ pid }) => pid))).toEqual(new Set([first.pid, second.pid]));

  const others = await Promise.all([reportOf(first, 'north'), reportOf(second, 'south')]);
  const [north, south] = others;
  expect(north && south && north.from < south.to && south.from < north.to).toBe(true);
});

interface Started {
  readonly pid: number | undefined;
  readonly url: string;
}

/** Starts the application, and waits until it has said that it runs. */
async function start(): Promise<Started> {
  const port = await freePort();
  const child = spawn(process.execPath, [join(project.folder, 'dist/main.js')], {
    env: { ...process.env, PORT: String(port) },
  });
  endWithTests(child);
  afterTest(() => child.kill());
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text: Buffer) => (output += text.toString()));
  }
  const url = `http://127.0.0.1:${port}`;
  await eventually(() => expect(output).toContain('successfully started'));
  await eventually(() => fetch(url)); // Nest says so shortly before it listens
  return { pid: child.pid, url };
}

async function reportOf({ url }: Started, name: string) {
  const text = await (await fetch(`${url}/reports/${name}`)).text();
  const line = /^process (\d+) built (\w+) from ([\d:.]+) to ([\d:.]+)\n$/.exec(text);
  expect([text, line?.[2]]).toEqual([text, name]);
  return { pid: Number(line?.[1]), from: line?.[3] ?? '', to: line?.[4] ?? '' };
}
