import { describe, expect, it, jest } from '@jest/globals';
import type * as Common from '@nestjs/common';
import type * as Core from '@nestjs/core';
import type * as Library from 'nestjs-locked';
import { afterTest } from '../support/after-test.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();

async function starts(
  { Module }: typeof Common,
  { NestFactory }: typeof Core,
  { LockService, RedisLockModule }: typeof Library,
): Promise<void> {
  class Root {}
  Module({ imports: [RedisLockModule.forRoot({ connection: redis.url })] })(Root);
  const app = await NestFactory.createApplicationContext(Root, {
    logger: false,
    abortOnError: false,
  });
  afterTest(() => app.close());
  await expect(app.get(LockService).withLock(uniqueKey(), () => 'held')).resolves.toBe('held');
}

type Loaded = Parameters<typeof starts>;

const load = (): Loaded => [
  jest.requireActual('@nestjs/common'),
  jest.requireActual('@nestjs/core'),
  jest.requireActual('nestjs-locked'),
];

describe('an application starts', () => {
  it('with the copy of the library that Jest has isolated', async () => {
    let loaded: Loaded | undefined;
    jest.isolateModules(() => (loaded = load()));
    await starts(...(loaded as Loaded));
  });

  it('with each of two copies, although Jest has reset its modules after it was loaded', async () => {
    const copies = [1, 2].map(() => {
      jest.resetModules();
      return load();
    });
    jest.resetModules();
    for (const copy of copies) await starts(...copy);
  });
});
