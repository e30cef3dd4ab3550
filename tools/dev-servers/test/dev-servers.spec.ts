import { afterEach, describe, expect, it } from '@jest/globals';
import {
  findMariaDbPrograms,
  hasMariaDb,
  isAlive,
  MariaDbServer,
  PostgresServer,
  provideMariaDb,
  providePostgres,
  provideRedis,
  RedisReplicaSet,
  RedisServer,
} from 'dev-servers';
import { Redis } from 'ioredis';
import { createConnection } from 'mysql2/promise';
import pg from 'pg';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describeIf } from '../../../test/support/describe-if.js';
import { UNGUARDED } from '../../../test/support/run-command.js';

/** Not with a server of `MARIADB_URL` alone: these tests start some. */
const describeWithMariaDbPrograms = describeIf(findMariaDbPrograms() !== undefined, 'no MariaDB');

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

describe('RedisServer', () => {
  it('starts empty, answers, and leaves neither process nor folder after stop', async () => {
    const server = await startRedis();
    const redis = client(server.url);

    await expect(redis.dbsize()).resolves.toBe(0);
    const folder = (await redis.config('GET', 'dir'))[1]!;
    expect(existsSync(folder)).toBe(true);

    await server.stop();
    await server.stop();
    expect(isAlive(server.pid)).toBe(false);
    expect(existsSync(folder)).toBe(false);
  });

  it('several at once get ports of their own', async () => {
    const servers = await Promise.all([startRedis(), startRedis(), startRedis(), startRedis()]);

    expect(new Set(servers.map(({ port }) => port)).size).toBe(4);
  });

  it('restarts empty on the same port', async () => {
    const server = await startRedis();
    const before = { url: server.url, pid: server.pid };
    await client(server.url).set('key', 'value');

    await server.restart();

    expect(server.url).toBe(before.url);
    expect(server.pid).not.toBe(before.pid);
    expect(isAlive(before.pid)).toBe(false);
    await expect(client(server.url).get('key')).resolves.toBeNull();
  });

  it('restarts after kill', async () => {
    const server = await startRedis();
    await server.kill();
    expect(isAlive(server.pid)).toBe(false);

    await server.restart();

    await expect(client(server.url).ping()).resolves.toBe('PONG');
  });

  it('keeps its data over a restart in a folder of the caller, and leaves that folder', async () => {
    const dir = folder();
    const server = await startRedis({ dir, args: ['--appendonly', 'yes'] });
    await client(server.url).set('key', 'value');

    await server.restart();

    await expect(client(server.url).get('key')).resolves.toBe('value');
    await server.stop();
    expect(readdirSync(dir)).toContain('appendonlydir');
  });

  it('answers nothing while paused and everything afterwards', async () => {
    const server = await startRedis();
    const redis = client(server.url);
    await redis.ping();

    server.pause();
    const answer = redis.ping();
    await expect(Promise.race([answer, sleep(150, 'silence')])).resolves.toBe('silence');

    server.resume();
    await expect(answer).resolves.toBe('PONG');
  });

  it('stops while paused', async () => {
    const server = await startRedis();
    server.pause();

    await server.stop();

    expect(isAlive(server.pid)).toBe(false);
  });

  it('says what redis-server printed when it does not start', async () => {
    await expect(startRedis({ args: ['--no-such-option', '1'] })).rejects.toThrow(/no-such-option/);
  });

  it('says that a port asked for is taken', async () => {
    const { port } = await startRedis();

    await expect(startRedis({ port })).rejects.toThrow(/Address already in use/);
  });
});

describe('RedisReplicaSet', () => {
  it('has a master that a replica follows, fails over when told to, and leaves no process behind', async () => {
    const set = await RedisReplicaSet.start();
    cleanUps.push(() => set.stop());
    const [first, second] = set.servers;
    expect(await set.master()).toBe(first);
    const through = new Redis({ sentinels: set.sentinels, name: set.name });
    cleanUps.push(() => through.disconnect());
    await through.set('key', 'value');
    expect(await through.wait(1, 5_000)).toBe(1);
    expect(await client(second.url).get('key')).toBe('value');

    expect(await set.failOver()).toBe(second);
    expect(await set.master()).toBe(second);
    expect(await client(second.url).set('key', 'other')).toBe('OK');

    await set.stop();
    expect(set.servers.map(({ pid }) => isAlive(pid))).toEqual([false, false]);
  });

  it('has more replicas if asked for, of which one follows a killed master even without a sentinel', async () => {
    const set = await RedisReplicaSet.start({
      replicas: 2,
      args: ['--min-replicas-to-write', '1'],
    });
    cleanUps.push(() => set.stop());
    expect(set.servers).toHaveLength(3);
    const [first] = set.servers;
    expect(await client(first.url).set('key', 'value')).toBe('OK');
    expect(await client(first.url).wait(2, 5_000)).toBe(2);

    await set.watchers[0]!.kill();
    await first.kill();
    const next = await set.successorOf(first);
    expect(set.servers.slice(1)).toContain(next);
    expect(await set.master()).toBe(next);
    expect(await client(next.url).get('key')).toBe('value');

    await set.watchers[0]!.restart();
    await eventually(async () => expect(await set.successorOf(first)).toBe(next));
  });
});

describe('PostgresServer', () => {
  it('starts, answers, and leaves neither process nor folder after stop', async () => {
    const server = await startPostgres({ settings: { max_connections: '7' } });

    const rows = await query(server.url, 'SHOW max_connections');
    expect(rows).toEqual([{ max_connections: '7' }]);
    const [{ data_directory: data }] = (await query(server.url, 'SHOW data_directory')) as [
      { data_directory: string },
    ];
    expect(existsSync(data)).toBe(true);

    await server.stop();
    await server.stop();
    expect(isAlive(server.pid)).toBe(false);
    expect(existsSync(join(data, '..'))).toBe(false);
  });

  it('says what postgres printed when it does not start', async () => {
    await expect(startPostgres({ settings: { no_such_setting: '1' } })).rejects.toThrow(
      /no_such_setting/,
    );
  });
});

describeWithMariaDbPrograms('MariaDbServer', () => {
  it('starts, answers, and leaves neither process nor folder after stop', async () => {
    const server = await startMariaDb({ args: ['--max-connections=17'] });

    const [row] = await queryMariaDb(
      server.url,
      'SELECT @@max_connections AS connections, @@datadir AS data, current_user() AS user',
    );
    expect(row).toMatchObject({ connections: 17, user: 'root@127.0.0.1' });
    const temporary = join(row!['data'] as string, '..');
    expect(existsSync(temporary)).toBe(true);

    await server.stop();
    await server.stop();
    expect(isAlive(server.pid)).toBe(false);
    expect(existsSync(temporary)).toBe(false);
  });

  it('says what mariadbd printed when it does not start', async () => {
    await expect(startMariaDb({ args: ['--no-such-option'] })).rejects.toThrow(/no-such-option/);
  });
});

describe('provideRedis', () => {
  it('uses REDIS_URL as it is, and neither empties nor stops that server', async () => {
    const server = await startRedis();
    await client(server.url).set('key', 'value');
    setEnvironment('REDIS_URL', server.url);

    const provided = await provideRedis();
    expect(provided).toMatchObject({ url: server.url, source: 'REDIS_URL' });
    await provided.stop();

    await expect(client(server.url).get('key')).resolves.toBe('value');
  });

  it('starts a server otherwise, and stops it', async () => {
    setEnvironment('REDIS_URL', undefined);

    const provided = await provideRedis();
    expect(provided.source).toMatch(/^(container|binary)$/);
    await expect(client(provided.url).ping()).resolves.toBe('PONG');

    await provided.stop();
    await expect(client(provided.url).ping()).rejects.toThrow();
  });

  it('passes over a Docker engine that does not answer, quickly', async () => {
    setEnvironment('REDIS_URL', undefined);
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    cleanUps.push(() => (silent.closeAllConnections(), silent.close()));
    setEnvironment('DOCKER_HOST', `tcp://127.0.0.1:${(silent.address() as AddressInfo).port}`);

    const before = performance.now();
    const provided = await provideRedis();
    cleanUps.push(() => provided.stop());

    expect(provided.source).toBe('binary');
    expect(performance.now() - before).toBeLessThan(2_000);
  });
});

describe('providePostgres', () => {
  it.each(['DATABASE_URL', 'POSTGRES_URL'] as const)(
    'uses %s as it is, and does not stop that server',
    async (variable) => {
      const server = await startPostgres();
      setEnvironment('DATABASE_URL', undefined);
      setEnvironment(variable, server.url);

      const provided = await providePostgres();
      expect(provided).toMatchObject({ url: server.url, source: variable });
      await provided.stop();

      await expect(query(server.url, 'SELECT 1 AS one')).resolves.toEqual([{ one: 1 }]);
    },
  );

  it('starts a server otherwise, and stops it', async () => {
    setEnvironment('DATABASE_URL', undefined);
    setEnvironment('POSTGRES_URL', undefined);

    const provided = await providePostgres();
    expect(provided.source).toMatch(/^(container|binary)$/);
    await expect(query(provided.url, 'SELECT 1 AS one')).resolves.toEqual([{ one: 1 }]);

    await provided.stop();
    await expect(query(provided.url, 'SELECT 1')).rejects.toThrow();
  });
});

describe('provideMariaDb', () => {
  it.each(['MARIADB_URL', 'MYSQL_URL'] as const)('uses %s as it is', async (variable) => {
    const url = 'mysql://root@127.0.0.1:1';
    setEnvironment('MARIADB_URL', undefined);
    setEnvironment(variable, url);

    expect(hasMariaDb()).toBe(true);
    await expect(provideMariaDb()).resolves.toMatchObject({ url, source: variable });
  });

  // Where this folder has all of MariaDB, as on systems with one folder for programs, PATH hides none.
  const itWhereHidden = existsSync('/usr/sbin/mariadb-install-db') ? it.skip : it;
  itWhereHidden('says how to get one where there is none', async () => {
    setEnvironment('MARIADB_URL', undefined);
    setEnvironment('MYSQL_URL', undefined);
    setEnvironment('PATH', folder());

    expect(hasMariaDb()).toBe(false);
    await expect(provideMariaDb()).rejects.toThrow(/MARIADB_URL.*mariadb-server/);
  });
});

describeWithMariaDbPrograms('provideMariaDb', () => {
  it('starts a server without either variable, and stops it', async () => {
    setEnvironment('MARIADB_URL', undefined);
    setEnvironment('MYSQL_URL', undefined);

    expect(hasMariaDb()).toBe(true);
    const provided = await provideMariaDb();
    expect(provided.source).toBe('binary');
    await expect(queryMariaDb(provided.url, 'SELECT 1 AS one')).resolves.toEqual([{ one: 1 }]);

    await provided.stop();
    await expect(queryMariaDb(provided.url, 'SELECT 1')).rejects.toThrow();
  });
});

describe('servers nobody stopped', () => {
  it.each(['exit', 'throw', 'SIGINT', 'SIGTERM', 'SIGKILL'])(
    'are gone with their folders after the process that started them ended by %s',
    async (ending) => {
      const temporary = folder();
      const parent = spawn(process.execPath, [fixture('start-servers.mjs'), ending], {
        env: { ...process.env, ...(ending === 'throw' && UNGUARDED), TMPDIR: temporary },
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      cleanUps.push(() => parent.kill('SIGKILL'));
      const ended = once(parent, 'exit');

      const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
      const pids = JSON.parse(line) as number[];
      if (ending.startsWith('SIG')) parent.kill(ending as NodeJS.Signals);
      await ended;

      await eventually(() => {
        expect(pids.filter(isAlive)).toEqual([]);
        expect(readdirSync(temporary)).toEqual([]);
      });
    },
  );
});

async function startRedis(options?: Parameters<typeof RedisServer.start>[0]): Promise<RedisServer> {
  const server = await RedisServer.start(options);
  cleanUps.push(() => server.stop());
  return server;
}

async function startPostgres(
  options?: Parameters<typeof PostgresServer.start>[0],
): Promise<PostgresServer> {
  const server = await PostgresServer.start(options);
  cleanUps.push(() => server.stop());
  return server;
}

async function startMariaDb(
  options?: Parameters<typeof MariaDbServer.start>[0],
): Promise<MariaDbServer> {
  const server = await MariaDbServer.start(options);
  cleanUps.push(() => server.stop());
  return server;
}

function client(url: string): Redis {
  const redis = new Redis(url, { retryStrategy: () => null, maxRetriesPerRequest: 0 });
  redis.on('error', () => {});
  cleanUps.push(() => redis.disconnect());
  return redis;
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const database = new pg.Client(url);
  await database.connect();
  try {
    return (await database.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await database.end();
  }
}

async function queryMariaDb(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const connection = await createConnection(url);
  try {
    return (await connection.query(sql))[0] as Record<string, unknown>[];
  } finally {
    await connection.end();
  }
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'dev-servers-test-'));
  chmodSync(path, 0o755); // PostgreSQL may run as another user, who must get through.
  cleanUps.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function fixture(name: string): string {
  return fileURLToPath(new URL(`./${name}`, import.meta.url));
}

function setEnvironment(name: string, value: string | undefined): void {
  const before = process.env[name];
  const set = (to: string | undefined): void => {
    if (to === undefined) delete process.env[name];
    else process.env[name] = to;
  };
  cleanUps.push(() => set(before));
  set(value);
}

async function eventually(assert: () => void | Promise<void>, limitMs = 5_000): Promise<void> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    try {
      return await assert();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(20);
    }
  }
}
