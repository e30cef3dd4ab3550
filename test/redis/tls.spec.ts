/** What docs/redis.md says about TLS and Unix sockets, on a real server. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import { LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../libs/dev-servers/src/free-port.js';
import { startNest } from '../support/nest-app.js';
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
}, 60_000);

afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe('connection', () => {
  const ways: readonly (readonly [string, () => RedisLockModuleOptions['connection']])[] = [
    ['a Unix socket', () => `unix://${socket}`],
    [
      'TLS with an authority of its own',
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
