/** What a start says if something answers at the address that is not the server that `connection` describes. */
import { describe, expect, it } from '@jest/globals';
import { LockConfigError, LockStoreError } from 'nestjs-locked';
import { readFileSync } from 'node:fs';
import { createServer as createHttp } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTls, type TlsOptions } from 'node:tls';
import { fileURLToPath } from 'node:url';
import {
  openRedis,
  type RedisConnectionOptions,
} from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { freePort } from '../../tools/dev-servers/src/free-port.js';
import { startSentinel } from '../../tools/dev-servers/src/redis-sentinel.js';
import { afterTest } from '../support/after-test.js';
import { connectTo, versions } from '../support/ioredis-versions.js';
import { newRedisStore } from '../support/open-redis-store.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';

const server = useRedisServer();

/** Long enough for a busy machine: whatever may not pass ends the start at once. */
const LONG_MS = 60_000;

/** Why a start fails. */
async function failure(connection: RedisConnectionOptions, startMs = LONG_MS): Promise<Error> {
  const redis = openRedis(connection);
  afterTest(() => redis.close());
  const { store, events } = newRedisStore(redis.client, { leaseMs: 1_500, startMs });
  return store.open(events).then(
    () => new Error('it has not failed'),
    (error: unknown) => error as Error,
  );
}

/** @returns the port on which it listens until the end of the test */
async function listening(listener: Server): Promise<number> {
  const sockets = new Set<Socket>();
  listener.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  afterTest(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise<void>((resolve) => void listener.close(() => resolve()));
  });
  return (listener.address() as AddressInfo).port;
}

/** A server that sends this text to whoever connects, or says something. */
function says(text: string, when: 'at once' | 'when asked'): Promise<number> {
  return listening(
    createServer((socket) => {
      if (when === 'at once') socket.write(text, 'latin1');
      else socket.once('data', () => socket.end(text, 'latin1'));
    }),
  );
}

describe('a port of something else', () => {
  it.each(versions)('of HTTP, with %s', async (_, connectWith) => {
    const port = await listening(createHttp((_, response) => void response.end()));
    const client = connectTo(connectWith, `redis://127.0.0.1:${port}`, { lazyConnect: true });
    const error = await failure(client);
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toBe(
      `What answers at redis://127.0.0.1:${port} is not Redis: it answered 'HTTP/1.1 400 Bad Request'; correct host and port in 'connection' (6379 is the usual port of Redis)`,
    );
  });

  it.each([
    ['SMTP', '220 mail.example ESMTP\r\n', 'at once', "'220 mail.example ESMTP'"],
    ['SSH', 'SSH-2.0-OpenSSH_9.2\r\n', 'at once', "'SSH-2.0-OpenSSH_9.2'"],
    ['MySQL', 'J\0\0\0\n8.0.36\0', 'at once', String.raw`'J\u0000\u0000\u0000'`],
    ['memcached', 'ERROR\r\n', 'when asked', "'ERROR'"],
    ['RabbitMQ', 'AMQP\0\0\x09\x01', 'when asked', String.raw`'AMQP\u0000\u0000\u0009\u0001'`],
  ] as const)('of %s', async (_, text, when, shown) => {
    const { message } = await failure(`redis://127.0.0.1:${await says(text, when)}`);
    expect(message).toContain(`is not Redis: it answered ${shown}; correct host and port`);
  });

  it('of a cluster, or of a sentinel', async () => {
    const port = await says('HTTP/1.1 400 Bad Request\r\n', 'when asked');
    const at = { host: '127.0.0.1', port };
    for (const connection of [{ cluster: [at] }, { sentinels: [at], name: 'mymaster' }]) {
      const error = await failure(connection);
      expect(error).toBeInstanceOf(LockConfigError);
      expect(error.message).toContain(`127.0.0.1:${port} is not Redis: Unknown RESP type 72 "H"; `);
    }
  });

  it('that never answers, or closes: the start is retried, and names what to check', async () => {
    const silent = await failure(`redis://127.0.0.1:${await says('', 'at once')}`, 500);
    expect(silent).toBeInstanceOf(LockStoreError);
    expect(silent.message).toMatch(/: Redis .*; check the address in 'connection', and that Redis/);
    const closing = await failure(`redis://127.0.0.1:${await says('', 'when asked')}`, 500);
    expect(closing).toBeInstanceOf(LockStoreError);
    expect(closing.message).toMatch(
      /; if this port expects TLS, write rediss:\/\/ instead of redis/,
    );
  });

  it('of a sentinel instead of the server', async () => {
    const sentinel = await startSentinel({
      name: 'mymaster',
      masterPort: server.port,
      quorum: 1,
      downAfterMs: 60_000,
    });
    afterTest(() => sentinel.stop());
    const error = await failure(`redis://127.0.0.1:${sentinel.port}`);
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toBe(
      "The server in 'connection' is a sentinel, which has no keys: pass { sentinels: [{ host, port }], name }, with the name of the master",
    );
  });

  it('of a server instead of the sentinel', async () => {
    const at = { host: '127.0.0.1', port: server.port };
    const { message } = await failure({ sentinels: [at], name: 'mymaster' }, 500);
    expect(message).toMatch(
      /ERR unknown command.*sentinel.*; correct 'sentinels' in 'connection': that server is not a/i,
    );
  });

  it('of sentinels that do not know the master', async () => {
    const sentinel = await startSentinel({
      name: 'other',
      masterPort: server.port,
      quorum: 1,
      downAfterMs: 60_000,
    });
    afterTest(() => sentinel.stop());
    const at = { host: '127.0.0.1', port: sentinel.port };
    const { message } = await failure({ sentinels: [at], name: 'mymaster' }, 500);
    expect(message).toMatch(
      /at master 'mymaster' of the sentinels 127\.0\.0\.1:\d+: ERR No such master with that name; correct name in 'connection' \(SENTINEL MASTERS lists the names\)$/,
    );
  });
});

describe('TLS', () => {
  const pem = (name: string): string =>
    readFileSync(new URL(`../fixtures/tls/${name}.pem`, import.meta.url), 'utf8');
  const ca = pem('authority');

  /** Redis behind TLS, with this certificate. */
  function behindTls(cert: string, options: TlsOptions = {}): Promise<number> {
    const tls = createTls({ key: pem('key'), cert: pem(cert), ...options }, (outer) => {
      const inner: Socket = connect(server.port, '127.0.0.1');
      for (const socket of [outer, inner]) socket.on('error', () => {});
      outer.pipe(inner).pipe(outer);
      outer.on('close', () => inner.destroy());
    });
    tls.on('tlsClientError', () => {});
    return listening(tls);
  }

  async function tlsFailure(cert: string, tls: object, startMs = LONG_MS): Promise<Error> {
    return failure({ host: '127.0.0.1', port: await behindTls(cert), tls }, startMs);
  }

  it.each([
    ['self-signed', 'cert', 'self-signed certificate'],
    ['signed by an authority that Node does not know', 'signed', 'unable to verify'],
  ])('with a certificate that is %s: says how to pass its authority', async (_, cert, reason) => {
    const error = await tlsFailure(cert, {});
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(
      /^The certificate of rediss:\/\/127\.0\.0\.1:\d+ is signed by no authority that Node knows: .*; pass the certificate of that authority: connection: \{ host, port, tls: \{ ca \} \}, or name its file in NODE_EXTRA_CA_CERTS$/,
    );
    expect(error.message).toContain(reason);
  });

  it('with a certificate for another host: names the hosts, and servername', async () => {
    const error = await tlsFailure('other-host', { ca });
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(
      / is for DNS:redis\.example: .*127\.0\.0\.1 is not .*; .*tls: \{ servername \} \}$/,
    );
  });

  it('with an expired certificate: is retried, because the server may get a new one', async () => {
    const error = await tlsFailure('expired', { ca }, 500);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toMatch(
      /certificate has expired; renew the certificate of the server, or correct the clock of this machine$/,
    );
  });

  it('with a server that asks for a certificate of the client', async () => {
    const port = await behindTls('signed', { requestCert: true, rejectUnauthorized: true, ca });
    const error = await failure({ host: '127.0.0.1', port, tls: { ca } });
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(
      / asks for a certificate of the client: .*tls: \{ cert, key \} \}$/,
    );
  });

  it('with a certificate that cannot be read', async () => {
    const tls = { ca, cert: ca.replace('MII', 'AII'), key: pem('key') };
    const error = await tlsFailure('signed', tls);
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(
      /^The option tls in 'connection' cannot be used: .*key must belong to cert$/,
    );
  });

  it('where the server has none', async () => {
    const http = await says('HTTP/1.1 400 Bad Request\r\n', 'when asked');
    const error = await failure(`rediss://127.0.0.1:${http}`);
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(
      / does not speak TLS: .*; write redis:\/\/ instead of rediss:\/\//,
    );
    const { message } = await failure(`rediss://127.0.0.1:${server.port}`, 500);
    expect(message).toMatch(
      /; if this port does not speak TLS, write redis:\/\/ instead of rediss:/,
    );
  });

  it('where the client has none', async () => {
    const port = await freePort();
    const file = (name: string): string =>
      fileURLToPath(new URL(`../fixtures/tls/${name}.pem`, import.meta.url));
    await startRedisServer(
      ...['--tls-port', String(port), '--tls-cert-file', file('signed')],
      ...['--tls-key-file', file('key'), '--tls-ca-cert-file', file('authority')],
    );
    for (const listener of [port, await behindTls('signed')]) {
      const { message } = await failure(`redis://127.0.0.1:${listener}`, 500);
      expect(message).toMatch(/TLS.*write rediss:\/\/ instead of redis:/);
    }
    const { message } = await failure({ host: '127.0.0.1', port, tls: { ca } });
    expect(message).toContain('asks for a certificate of the client');
  });

  it('works if all of it is right', async () => {
    const port = await behindTls('signed', { requestCert: true, rejectUnauthorized: true, ca });
    const tls = { ca, cert: pem('signed'), key: pem('key') };
    expect((await failure({ host: '127.0.0.1', port, tls })).message).toBe('it has not failed');
    const other = { host: '127.0.0.1', port: await behindTls('other-host') };
    const named = { ...other, tls: { ca, servername: 'redis.example' } };
    expect((await failure(named)).message).toBe('it has not failed');
  });
});
