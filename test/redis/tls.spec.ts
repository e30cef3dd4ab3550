/** What docs/redis.md says about TLS and Unix sockets, on a real server; and how a start reports errors. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import {
  LockConfigError,
  LockService,
  LockStoreError,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { freePort } from '../../tools/dev-servers/src/free-port.js';
import { afterTest } from '../support/after-test.js';
import { startNest } from '../support/nest-app.js';
import { newRedisStore } from '../support/open-redis-store.js';
import { uniqueKey } from '../support/unique-key.js';

const CERTIFICATES = fileURLToPath(new URL('../fixtures/tls/', import.meta.url));
const certificate = (name: string): string => join(CERTIFICATES, name);

const folder = mkdtempSync(join(tmpdir(), 'redis-tls-'));
const socket = join(folder, 'redis.sock');
let server: RedisServer;
let port: number;

beforeAll(async () => {
  port = await freePort();
  server = await RedisServer.start({
    args: [
      ...['--tls-port', String(port), '--tls-auth-clients', 'no', '--unixsocket', socket],
      ...['--tls-cert-file', certificate('cert.pem'), '--tls-key-file', certificate('key.pem')],
      ...['--tls-ca-cert-file', certificate('cert.pem')],
    ],
  });
});

afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe('connection', () => {
  const ways: readonly (readonly [string, () => RedisLockModuleOptions['connection']])[] = [
    ['a Unix socket', () => `unix://${socket}`],
    [
      'TLS with a private authority',
      () => ({ host: 'localhost', port, tls: { ca: readFileSync(certificate('cert.pem')) } }),
    ],
    [
      'TLS without a check of the certificate',
      () => ({ host: 'localhost', port, tls: { rejectUnauthorized: false } }),
    ],
  ];
  it.each(ways)('by %s', async (_, connection) => {
    const app = await startNest({
      imports: [RedisLockModule.forRoot({ connection: connection() })],
    });
    const locks = app.get(LockService);
    const key = uniqueKey();
    await locks.withLock(key, async () => {
      expect(await locks.tryAcquire(key, { reentrant: false })).toBeNull();
    });
    expect(await locks.inspect(key)).toBeNull();
  });
});

describe('a start that cannot connect reports the error of the socket', () => {
  /** One server, a cluster, or the master of sentinels, all at this port. */
  const kinds: readonly (readonly [
    string,
    (at: { host: string; port: number; tls?: object }) => RedisLockModuleOptions['connection'],
  ])[] = [
    ['one server', (at) => at],
    ['a cluster', ({ tls, ...node }) => ({ cluster: [node], redisOptions: { tls } })],
    [
      'sentinels',
      ({ tls, ...sentinel }) => ({
        sentinels: [sentinel],
        name: 'main',
        sentinelTLS: tls,
        enableTLSForSentinelMode: tls !== undefined,
        tls,
      }),
    ],
  ];

  async function reasonOf(connection: RedisLockModuleOptions['connection']): Promise<Error> {
    const redis = openRedis(connection);
    const { store, events } = newRedisStore(redis.client, { leaseMs: 1_500, startMs: 1_500 });
    afterTest(() => redis.close());
    return store.open(events).then(
      () => new Error('it has not failed'),
      (error: unknown) => error as Error,
    );
  }

  it.each(kinds)('%s: a port on which nobody listens', async (_, connection) => {
    const refused = await freePort();
    const error = await reasonOf(connection({ host: '127.0.0.1', port: refused }));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toContain(`ECONNREFUSED 127.0.0.1:${refused}`);
    expect(error.cause).toMatchObject({ message: expect.stringContaining('ECONNREFUSED') });
  });

  it.each(kinds)('%s: an unknown authority', async (_, connection) => {
    const error = await reasonOf(connection({ host: 'localhost', port, tls: {} }));
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(
      /signed by no authority that Node knows: .*self-signed certificate/i,
    );
    expect(error.cause).toMatchObject({ message: expect.stringMatching(/self-signed/i) });
  });

  it.each(kinds)('%s: may be closed during the handshake', async (_, connection) => {
    // A second error of the socket would end the process. Whether there is one depends on the moment.
    for (let delayMs = 0; delayMs < 30; delayMs += 0.25) {
      const redis = openRedis(connection({ host: 'localhost', port, tls: {} }));
      const { store, events } = newRedisStore(redis.client);
      const opened = store.open(events).catch((error: unknown) => error);
      await sleep(delayMs);
      await store.close();
      await redis.close();
      expect(await opened).toBeInstanceOf(Error);
    }
  });
});
