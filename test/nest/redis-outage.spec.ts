import { beforeAll, describe, expect, it } from '@jest/globals';
import type { LoggerService } from '@nestjs/common';
import { LockConfigError, LockService, LockStoreError, RedisLockModule } from 'nestjs-locked';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterTest } from '../support/after-test.js';
import { startNest } from '../support/nest-app.js';
import { useRedisServer } from '../support/own-redis.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { uniqueKey } from '../support/unique-key.js';

const run = promisify(execFile);
const STARTER = fileURLToPath(new URL('../fixtures/start-without-redis.mjs', import.meta.url));

/** Short, so that outages are noticed soon: a command may take a third of it. */
const LEASE_MS = 900;
const COMMAND_LIMIT_MS = 300;
/** For a busy machine. */
const SLACK_MS = 4_000;

const server = useRedisServer();
/** It takes the full ten seconds to give up, so it begins while the other tests run. */
let startWithoutRedis: Promise<{ stdout: string; stderr: string }>;

beforeAll(async () => {
  startWithoutRedis = run(process.execPath, [STARTER, `redis://127.0.0.1:${await closedPort()}`], {
    timeout: 60_000,
  });
  startWithoutRedis.catch(() => {}); // checked by its test
});

async function startLocks(leaseMs = LEASE_MS, logger?: LoggerService): Promise<LockService> {
  const lockModule = RedisLockModule.forRoot({ connection: server.url, leaseMs });
  return (await startNest({ imports: [lockModule] }, logger)).get(LockService);
}

async function timed(action: () => Promise<unknown>): Promise<{ error: unknown; ms: number }> {
  const startedAt = performance.now();
  const error = await action().then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return { error, ms: performance.now() - startedAt };
}

describe('Redis with a fault', () => {
  it('without channel rights: the application does not start, and the error names the missing rule', async () => {
    const { admin } = server;
    const rules = ['on', '>secret', '~lock:*', 'resetchannels', '+@all'];
    await admin.call('ACL', 'SETUSER', 'no-channels', ...rules);

    const connection = `redis://no-channels:secret@127.0.0.1:${server.port}`;
    const start = startNest({ imports: [RedisLockModule.forRoot({ connection })] });
    const error = await start.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockConfigError);
    const late = RedisLockModule.forRoot({ connection, startWithoutRedis: true });
    await expect(startNest({ imports: [late] })).rejects.toBeInstanceOf(LockConfigError);

    const [, needed = ''] = /ACL SETUSER <user> (.+)$/.exec((error as Error).message) ?? [];
    expect(needed).toContain('~lock:* &lock:inbox:* +eval');
    expect(needed).not.toContain('+@all');
    expect(readFileSync('docs/installation.md', 'utf8')).toContain(`${needed}\n`);
    expect(needed).not.toContain('+select');
    const onlyThese = ['resetkeys', 'resetchannels', '-@all', ...needed.split(' ')];
    await admin.call('ACL', 'SETUSER', 'no-channels', ...onlyThese);
    await startNest({ imports: [RedisLockModule.forRoot({ connection })] });

    // A database other than 0 takes one more right, which nobody else needs.
    const inDatabase = startNest({
      imports: [RedisLockModule.forRoot({ connection: `${connection}/3` })],
    });
    await expect(inDatabase).rejects.toThrow(/lacks rights: .*select.* \+select$/);
    await admin.call('ACL', 'SETUSER', 'no-channels', '+select');
    await startNest({ imports: [RedisLockModule.forRoot({ connection: `${connection}/3` })] });
  });

  it('killed: calls fail with LockStoreError within their time, and succeed again after a restart', async () => {
    const locks = await startLocks();
    const key = uniqueKey();
    await locks.withLock(key, () => 'warm');
    await server.kill();
    let restarted = false;
    afterTest(async () => {
      if (!restarted) await server.restart();
    });

    const single = await timed(() => locks.tryAcquire(key));
    expect(single.error).toBeInstanceOf(LockStoreError);
    expect(single.ms).toBeLessThan(COMMAND_LIMIT_MS + SLACK_MS);

    const waitMs = 700;
    const waited = await timed(() => locks.withLock(key, { waitMs }, () => 'never'));
    expect(waited.error).toBeInstanceOf(LockStoreError);
    expect(waited.ms).toBeGreaterThanOrEqual(waitMs - 1);
    expect(waited.ms).toBeLessThan(waitMs + COMMAND_LIMIT_MS + SLACK_MS);

    const patient = locks.withLock(key, { waitMs: 60_000 }, () => 'served');
    await server.restart();
    restarted = true;
    expect(await patient).toBe('served');
    expect(await locks.withLock(key, () => 'again')).toBe('again');
  });

  it('frozen: a holder is told at its deadline, and its work still returns its result [D117]', async () => {
    const logger = new RecordingLogger();
    const locks = await startLocks(LEASE_MS, logger);
    const key = uniqueKey();
    const result = await locks.withLock(key, async (lock) => {
      server.pause();
      afterTest(() => server.resume());
      const startedAt = performance.now();
      await new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
      expect(performance.now() - startedAt).toBeLessThan(LEASE_MS + SLACK_MS);
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'expired', key });
      expect(lock.isHeld).toBe(false);
      expect(() => lock.assertHeld()).toThrow(`Lock '${key}' was lost (expired)`);
      server.resume();
      return 'done all the same';
    });
    expect(result).toBe('done all the same');
    expect(logger.lines('nestjs-locked')).toContainEqual(
      expect.stringContaining(`error Lock '${key}' was lost (expired)`),
    );
  });

  it('restarted empty: a holder is told that its lock was deleted', async () => {
    const locks = await startLocks(30_000); // longer than the restart, on a busy machine too
    await locks.withLock(uniqueKey(), async (lock) => {
      await server.restart();
      while (!lock.signal.aborted) await sleep(5);
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'deleted' });
    });
  });

  it('not there at start: the application does not start, says so, and ends by itself', async () => {
    const { stdout, stderr } = await startWithoutRedis;
    const error = JSON.parse(stdout) as { code: string; message: string };
    expect(error.code).toBe('LOCK_STORE_FAILED');
    expect(error.message).toMatch(
      /within 1\d{4} ms, at redis:\/\/127\.0\.0\.1:\d+: .*ECONNREFUSED.*check the address in 'connection'/,
    );
    expect(stderr).toBe('');
  });
});

async function closedPort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
