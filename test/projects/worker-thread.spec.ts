/** `renewFrom: 'worker'` in a program that is one minified file, with ioredis in it. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { build } from 'esbuild';
import webpack from 'webpack';
import { join } from 'node:path';
import { TemporaryProject } from '../api/temporary-project.js';
import { useRedisServer } from '../support/own-redis.js';

const APP = `
  import 'reflect-metadata';
  import { NestFactory } from '@nestjs/core';
  import { LockService, RedisLockModule } from 'nestjs-locked';
  async function run() {
    const options = { connection: process.env.REDIS_URL, leaseMs: 500, renewFrom: 'worker' };
    const module = RedisLockModule.forRoot(options);
    const app = await NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
    const isHeld = await app.get(LockService).withLock('key', (lock) => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_250);
      return lock.isHeld;
    });
    await app.close();
    return 'held: ' + isHeld;
  }
  run().catch((error) => error.code + ' ' + error.message).then(console.log);
`;

/** What Nest requires only if it is installed. */
const OPTIONAL =
  /^(@nestjs\/(microservices|websockets|platform-express)|class-(validator|transformer))(\/|$)/;

const BUILDS: Record<string, (app: string, out: string) => Promise<void>> = {
  async esbuild(app, out) {
    const names = ['@nestjs/microservices', '@nestjs/websockets', 'class-transformer'];
    const external = [...names, ...names.map((name) => `${name}/*`), 'class-validator'];
    await build({
      ...{ entryPoints: [app], outfile: join(out, 'program.cjs'), logLevel: 'error' },
      ...{ bundle: true, platform: 'node', minify: true, keepNames: true },
      external: [...external, '@nestjs/platform-express'],
    });
  },
  webpack: (app, out) =>
    new Promise((resolve, reject) => {
      const compiler = webpack({
        ...{ target: 'node', mode: 'production', entry: app },
        output: { path: out, filename: 'program.cjs' },
        externals: [
          ({ request = '' }, done) =>
            OPTIONAL.test(request) ? done(undefined, `commonjs ${request}`) : done(),
        ],
      });
      compiler?.run((error, stats) => {
        if (error !== null || stats?.hasErrors()) reject(error ?? new Error(stats?.toString()));
        else resolve();
      });
    }),
};

describe.each(Object.keys(BUILDS))('a program of one file, made by %s', (name) => {
  const server = useRedisServer();
  const project = new TemporaryProject();
  afterAll(() => project.remove());

  beforeAll(async () => {
    const source = new TemporaryProject();
    source.link('nestjs-locked', '@nestjs/core', '@nestjs/common', 'reflect-metadata', 'rxjs');
    const file = source.write('app.mjs', APP);
    await BUILDS[name]?.(file, project.folder);
    source.remove();
  });

  const run = async () =>
    (await project.node(['program.cjs'], { REDIS_URL: server.url })).stdout.trim();

  it('says what to do if the worker thread does not find ioredis', async () => {
    expect(await run()).toMatch(
      /^LOCK_CONFIG_INVALID renewFrom: 'worker' needs the package ioredis, .* cannot be found; /,
    );
  });

  it('keeps its lock while it is blocked, if ioredis is installed beside it', async () => {
    project.link('ioredis');
    expect(await run()).toBe('held: true');
  });
});
