import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type INestApplicationContext, Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { RedisLockModule } from 'nestjs-locked';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterTest } from '../support/after-test.js';
import { useRedis } from '../support/shared-redis.js';

const run = promisify(execFile);
const STARTER = fileURLToPath(new URL('../fixtures/start-in-thread.mjs', import.meta.url));
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'];

const redis = useRedis();
let warnings: unknown[];

beforeEach(() => {
  warnings = [];
  // The test runner may listen, too.
  for (const signal of SIGNALS) {
    const listeners = process.rawListeners(signal);
    process.removeAllListeners(signal);
    afterTest(() => {
      for (const listener of listeners) process.on(signal, listener as () => void);
    });
  }
  jest.useFakeTimers({
    doNotFake: ['Date', 'hrtime', 'nextTick', 'performance', 'queueMicrotask', 'setImmediate'],
  });
});

afterEach(() => {
  jest.useRealTimers();
});

function listen(): void {
  const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => {
    warnings.push(message);
  });
  afterTest(() => warn.mockRestore());
}

function lockModules() {
  const connection = redis.url;
  return [
    RedisLockModule.forRoot({ connection }),
    RedisLockModule.forRoot({ connection, name: 'billing' }),
  ];
}

async function startPlain(): Promise<INestApplicationContext> {
  const root = { module: class Root {}, imports: lockModules() };
  const app = await NestFactory.createApplicationContext(root, { logger: false });
  afterTest(() => app.close());
  listen();
  return app;
}

describe('an application in which nothing listens to SIGTERM', () => {
  it('is warned once, ten seconds after its start', async () => {
    await startPlain();
    jest.advanceTimersByTime(9_999);
    expect(warnings).toEqual([]);
    jest.advanceTimersByTime(1);
    expect(warnings).toEqual([expect.stringContaining('call app.enableShutdownHooks()')]);
    jest.advanceTimersByTime(60_000);
    expect(warnings).toHaveLength(1);
  });

  it('is not warned when it is closed sooner', async () => {
    const app = await startPlain();
    await app.close();
    jest.advanceTimersByTime(60_000);
    expect(warnings).toEqual([]);
  });

  it('is not warned when it is a test', async () => {
    const module = await Test.createTestingModule({ imports: lockModules() }).compile();
    afterTest(() => module.close());
    await module.init();
    listen();
    jest.advanceTimersByTime(60_000);
    expect(warnings).toEqual([]);
  });

  it('is not warned when it runs in a thread, which gets no signals', async () => {
    const { stdout } = await run(process.execPath, [STARTER, redis.url]);
    expect(JSON.parse(stdout)).toEqual([]);
  });
});

describe('an application that handles signals is not warned', () => {
  it('when its hooks were enabled after the start', async () => {
    const app = await startPlain();
    app.enableShutdownHooks();
    jest.advanceTimersByTime(60_000);
    expect(warnings).toEqual([]);
  });

  it.each(SIGNALS)('when it listens to %s itself', async (signal) => {
    await startPlain();
    const closeMyself = (): void => {};
    process.on(signal, closeMyself);
    afterTest(() => process.off(signal, closeMyself));
    jest.advanceTimersByTime(60_000);
    expect(warnings).toEqual([]);
  });
});
