import { describe, expect, it } from '@jest/globals';
import {
  faketime,
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
import { afterTest } from '../../../test/support/after-test.js';
import { describeIf } from '../../../test/support/describe-if.js';
import { eventually } from '../../../test/support/eventually.js';
import { UNGUARDED } from '../../../test/support/run-command.js';

interface Kind {
  readonly name: string;
  readonly start: () => Promise<{ url: string; pid: number; stop(): Promise<void> }>;
  /** With an option that the server does not know. */
  readonly startWrongly: () => Promise<unknown>;
  /** What one setting is, which `start` has changed, and where the server keeps its files. */
  readonly ask: (url: string) => Promise<{ setting: unknown; folder: string }>;
  readonly provide: () => Promise<{ url: string; source: string; stop(): Promise<void> }>;
  readonly variables: readonly string[];
}

const REDIS: Kind = {
  name: 'Redis',
  start: () => startRedis({ args: ['--maxclients', '17'] }),
  startWrongly: () => startRedis({ args: ['--no-such-option', '1'] }),
  async ask(url) {
    const redis = client(url);
    const [, setting] = (await redis.config('GET', 'maxclients')) as [string, string];
    const [, folder] = (await redis.config('GET', 'dir')) as [string, string];
    return { setting, folder };
  },
  provide: provideRedis,
  variables: ['REDIS_URL'],
};

const POSTGRES: Kind = {
  name: 'PostgreSQL',
  start: () => PostgresServer.start({ settings: { max_connections: '17' } }).then(stopped),
  startWrongly: () => PostgresServer.start({ settings: { no_such_option: '1' } }).then(stopped),
  async ask(url) {
    const database = new pg.Client(url);
    await database.connect();
    try {
      const show = `SELECT current_setting('max_connections') setting, current_setting('data_directory') data`;
      const [row] = (await database.query<{ setting: string; data: string }>(show)).rows;
      return { setting: row?.setting, folder: join(row?.data ?? '', '..') };
    } finally {
      await database.end();
    }
  },
  provide: providePostgres,
  variables: ['DATABASE_URL', 'POSTGRES_URL'],
};

const MARIADB: Kind = {
  name: 'MariaDB',
  start: () => MariaDbServer.start({ args: ['--max-connections=17'] }).then(stopped),
  startWrongly: () => MariaDbServer.start({ args: ['--no-such-option'] }).then(stopped),
  async ask(url) {
    const connection = await createConnection(url);
    try {
      const show = 'SELECT @@max_connections AS setting, @@datadir AS data';
      const [[row]] = (await connection.query(show)) as unknown as [[Record<string, string>]];
      return { setting: String(row['setting']), folder: join(row['data'] ?? '', '..') };
    } finally {
      await connection.end();
    }
  },
  provide: provideMariaDb,
  variables: ['MARIADB_URL', 'MYSQL_URL'],
};

describeServer(REDIS);
describeServer(POSTGRES);
/** Not with a server of `MARIADB_URL` alone: these tests start some. */
describeServer(MARIADB, describeIf(findMariaDbPrograms() !== undefined, 'no MariaDB'));

function describeServer(
  { name, start, startWrongly, ask, provide, variables }: Kind,
  describeOne: (name: string, tests: () => void) => void = describe,
): void {
  describeOne(name, () => {
    it('starts as asked, and leaves neither process nor folder after stop', async () => {
      const server = await start();
      const { setting, folder } = await ask(server.url);
      expect(setting).toBe('17');
      expect(existsSync(folder)).toBe(true);

      await server.stop();
      await server.stop();
      expect(isAlive(server.pid)).toBe(false);
      expect(existsSync(folder)).toBe(false);
    });

    it('says what the server printed when it does not start', async () => {
      await expect(startWrongly()).rejects.toThrow(/no.such.option/);
    });

    it.each(variables)('%s is used as it is, and that server is not stopped', async (variable) => {
      const server = await start();
      for (const other of variables) setEnvironment(other, undefined);
      setEnvironment(variable, server.url);

      const provided = await provide();
      expect(provided).toMatchObject({ url: server.url, source: variable });
      await provided.stop();

      expect(await ask(server.url)).toMatchObject({ setting: '17' });
    });

    it('is provided otherwise, and stopped', async () => {
      for (const variable of variables) setEnvironment(variable, undefined);

      const provided = await provide();
      expect(provided.source).toMatch(/^(container|binary)$/);
      await ask(provided.url);

      await provided.stop();
      await expect(ask(provided.url)).rejects.toThrow();
    });
  });
}

describe('RedisServer', () => {
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

  describeIf(faketime !== undefined, 'no libfaketime')('with a clock of its own', () => {
    it('expires keys when the clock says so, and keeps the clock over a restart', async () => {
      const server = await RedisServer.start({ hasOwnClock: true });
      afterTest(() => server.stop());
      const redis = client(server.url);
      await redis.set('key', 'value', 'EX', 30);

      await server.stepClock(60);
      await expect(redis.get('key')).resolves.toBeNull();
      await server.restart();
      await server.stepClock(-30);

      const [now = 0] = (await client(server.url).time()).map(Number);
      expect(Math.abs(now - Date.now() / 1_000 - 30)).toBeLessThan(5);
    });
  });

  it('has the clock of the machine unless it was started with its own', async () => {
    const server = await startRedis();
    await expect(server.stepClock(1)).rejects.toThrow('hasOwnClock: true');
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

  it('says that a port asked for is taken', async () => {
    const { port } = await startRedis();

    await expect(startRedis({ port })).rejects.toThrow(/Address already in use/);
  });
});

describe('RedisReplicaSet', () => {
  it('has a master that a replica follows, fails over when told to, and leaves no process behind', async () => {
    const set = await RedisReplicaSet.start();
    afterTest(() => set.stop());
    const [first, second] = set.servers;
    expect(await set.master()).toBe(first);
    const through = new Redis({ sentinels: set.sentinels, name: set.name });
    afterTest(() => through.disconnect());
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
    afterTest(() => set.stop());
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

describe('what provides servers', () => {
  it('passes over a Docker engine that does not answer, quickly', async () => {
    setEnvironment('REDIS_URL', undefined);
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    afterTest(() => (silent.closeAllConnections(), silent.close()));
    setEnvironment('DOCKER_HOST', `tcp://127.0.0.1:${(silent.address() as AddressInfo).port}`);

    const before = performance.now();
    const provided = await provideRedis();
    afterTest(() => provided.stop());

    expect(provided.source).toBe('binary');
    // A second, and what a busy machine adds; the engine itself would be waited for without end.
    expect(performance.now() - before).toBeLessThan(15_000);
  });

  // Where this folder has all of MariaDB, as on systems with one folder for programs, PATH hides none.
  const itWhereHidden = existsSync('/usr/sbin/mariadb-install-db') ? it.skip : it;
  itWhereHidden('says how to get one where there is none', async () => {
    setEnvironment('MARIADB_URL', undefined);
    setEnvironment('MYSQL_URL', undefined);
    setEnvironment('PATH', folder());

    expect(hasMariaDb()).toBe(false);
    await expect(provideMariaDb()).rejects.toThrow(/MARIADB_URL.*mariadb-server/);

    setEnvironment('MYSQL_URL', 'mysql://root@127.0.0.1:1');
    expect(hasMariaDb()).toBe(true);
    await expect(provideMariaDb()).resolves.toMatchObject({ source: 'MYSQL_URL' });
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
      afterTest(() => parent.kill('SIGKILL'));
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
  return stopped(await RedisServer.start(options));
}

/** At the end of the test. */
function stopped<Server extends { stop(): Promise<void> }>(server: Server): Server {
  afterTest(() => server.stop());
  return server;
}

function client(url: string): Redis {
  const redis = new Redis(url, { retryStrategy: () => null, maxRetriesPerRequest: 0 });
  redis.on('error', () => {});
  afterTest(() => redis.disconnect());
  return redis;
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'dev-servers-test-'));
  chmodSync(path, 0o755); // PostgreSQL may run as another user, who must get through.
  afterTest(() => rmSync(path, { recursive: true, force: true }));
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
  afterTest(() => set(before));
  set(value);
}
