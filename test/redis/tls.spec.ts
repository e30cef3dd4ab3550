/** What docs/redis.md says about TLS and Unix sockets, on a real server; and how a start reports errors. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import {
  LockConfigError,
  LockDeadlockError,
  LockService,
  LockStoreError,
  RedisLockModule,
} from 'nestjs-locked';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  openRedis,
  type RedisConnectionOptions,
} from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { freePort } from '../../tools/dev-servers/src/free-port.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { startNest } from '../support/nest-app.js';
import { openLocksOn } from '../support/open-locks.js';
import { newRedisStore } from '../support/open-redis-store.js';
import { errorsOf, expectOneVictim, startRing } from '../support/ring-of-calls.js';
import { ringThroughReaders } from '../support/ring-through-readers.js';
import { uniqueKey } from '../support/unique-key.js';

const CERTIFICATES = fileURLToPath(new URL('../fixtures/tls/', import.meta.url));
const CALL_IN_RING = fileURLToPath(new URL('../fixtures/call-in-ring.mjs', import.meta.url));
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
  const ways: readonly (readonly [string, () => RedisConnectionOptions])[] = [
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

describe('calls that wait for each other over TLS', () => {
  const LEASE_MS = 1_500;
  let strict: RedisServer;
  let strictPort: number;

  beforeAll(async () => {
    strictPort = await freePort();
    strict = await RedisServer.start({
      args: [
        ...['--tls-port', String(strictPort), '--tls-auth-clients', 'yes'],
        ...['--tls-cert-file', certificate('cert.pem'), '--tls-key-file', certificate('key.pem')],
        ...['--tls-ca-cert-file', certificate('cert.pem')],
      ],
    });
  });

  afterAll(() => strict?.stop());

  const ca = certificate('cert.pem');
  const ways: readonly (readonly [string, () => number, Record<string, string>])[] = [
    ['a private authority', () => port, { ca }],
    [
      'a certificate of the client',
      () => strictPort,
      { ca, cert: certificate('cert.pem'), key: certificate('key.pem') },
    ],
  ];

  it.each(ways)('are freed by one error, with %s', async (_, portOf, files) => {
    const tls = Object.fromEntries(
      Object.entries(files).map(([name, file]) => [name, readFileSync(file)]),
    );
    const connection = { host: 'localhost', port: portOf(), tls };
    const opened = await Promise.all(
      [1, 2, 3].map(() => openLocksOn(connection, { leaseMs: LEASE_MS, waitMs: 30_000 })),
    );
    const engines = opened.map(({ engine }) => engine);
    const rings = [2, 3].map((count) => {
      const keys = Array.from({ length: count }, () => uniqueKey());
      return { keys, ring: startRing(engines, keys) };
    });
    const done = makeGate();
    const readers = ringThroughReaders(engines, done.opened);
    for (const { keys, ring } of rings) await expectOneVictim(ring, keys);
    const told = opened.flatMap(({ events }) => events.filter(({ type }) => type === 'deadlock'));
    await eventually(() => expect(told.length).toBeGreaterThanOrEqual(rings.length));
    done.open();
    expect(errorsOf(await readers)).toEqual([expect.any(LockDeadlockError)]);
  });

  it.each(ways)('in three processes are freed by one error, with %s', async (_, portOf, tls) => {
    const keys = [uniqueKey(), uniqueKey(), uniqueKey()];
    const processes = keys.map((key, i) => {
      const next = keys[(i + 1) % keys.length];
      const options = { host: 'localhost', port: portOf(), tls, leaseMs: LEASE_MS, key, next };
      const child = spawn(process.execPath, [CALL_IN_RING, JSON.stringify(options)]);
      afterTest(() => child.kill('SIGKILL'));
      let printed = '';
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (data) => (printed += String(data)));
      return { child, printed: () => printed.trim().split('\n') };
    });
    const lines = () => processes.map(({ printed }) => printed());
    await eventually(() => expect(lines()).toEqual([['held'], ['held'], ['held']]));
    const from = performance.now();
    for (const { child } of processes) child.stdin.write('go\n');
    await eventually(() =>
      expect(
        lines()
          .map(([, ended]) => ended)
          .sort(),
      ).toEqual(['LOCK_DEADLOCK', 'done', 'done']),
    );
    expect(performance.now() - from).toBeLessThan(10_000); // a third of the wait
  });
});

describe('a start that cannot connect reports the error of the socket', () => {
  /** One server, a cluster, or the master of sentinels, all at this port. */
  const kinds: readonly (readonly [
    string,
    (at: { host: string; port: number; tls?: object }) => RedisConnectionOptions,
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

  async function reasonOf(connection: RedisConnectionOptions): Promise<Error> {
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
