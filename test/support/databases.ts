import { afterAll, beforeAll } from '@jest/globals';
import { createConnection } from 'mysql2/promise';
import pg from 'pg';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { fetchAgain } from './fetch-again.js';

/** The connection settings of `pg` and `mysql2`, and of libraries that pass their settings on to them. */
export interface ConnectionSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** An empty database for one spec file or `describe`. It exists from the first `beforeAll` to the end. */
export interface TestDatabase {
  readonly settings: ConnectionSettings;
  /** The same settings as a URL: `postgres://…` or `mysql://…` */
  readonly url: string;
  /**
   * Runs one statement outside all transactions of the test, on a connection of its own, and commits it at once.
   * Placeholders are `$1` in PostgreSQL and `?` in MariaDB.
   *
   * @throws Error of the server, also if a lock is not free within `QUERY_LIMIT_MS`.
   */
  query<Row = Record<string, unknown>>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
}

export const QUERY_LIMIT_MS = 10_000;

/** Enough for a server that starts on a busy machine. */
const START_LIMIT_MS = 90_000;

/** How long closed clients may take to disconnect. */
const LEAVE_LIMIT_MS = 5_000;

interface Runner {
  run(sql: string, values?: readonly unknown[]): Promise<unknown[]>;
}

interface Connection {
  run(sql: string, values: readonly unknown[]): Promise<unknown[]>;
  end(): Promise<void>;
}

type Connect = (url: string) => Promise<Connection>;

/** A database on the PostgreSQL server of this test run. Call it where `beforeAll` may be called. */
export function usePostgres(): TestDatabase {
  return useDatabase(
    'postgres',
    connectPostgres,
    async (name, server) => {
      // Copying the template's files takes a third of the time that logging each of its pages does.
      const [row] = (await server.run('SHOW server_version_num')) as {
        server_version_num: string;
      }[];
      const strategy = Number(row?.server_version_num) >= 150_000 ? ' STRATEGY file_copy' : '';
      await server.run(`CREATE DATABASE ${name}${strategy}`);
    },
    async (name, server) => {
      await withoutClients(name, server);
      await server.run(`DROP DATABASE ${name} WITH (FORCE)`); // terminates connections that a failed test left open
    },
  );
}

/**
 * Waits until the clients that the tests have closed are disconnected. If the server terminated one earlier, the client
 * would emit an error for which no listener is left.
 */
async function withoutClients(name: string, server: Runner): Promise<void> {
  const sql = 'SELECT pid FROM pg_stat_activity WHERE datname = $1';
  const endsAt = performance.now() + LEAVE_LIMIT_MS;
  while ((await server.run(sql, [name])).length > 0 && performance.now() < endsAt) await sleep(5);
}

/** A database on the MariaDB server of this test run. Call it inside `describeWithMariaDb`. */
export function useMariaDb(): TestDatabase {
  return useDatabase('mariadb', connectMariaDb, createDatabase, dropDatabase);
}

/** A database on the MySQL server of this test run. Call it inside `describeWithMySql`. */
export function useMySql(): TestDatabase {
  return useDatabase('mysql', connectMariaDb, createDatabase, dropDatabase);
}

async function createDatabase(name: string, server: Runner): Promise<void> {
  await server.run(`CREATE DATABASE ${name}`);
}

async function dropDatabase(name: string, server: Runner): Promise<void> {
  await server.run(`DROP DATABASE ${name}`);
}

function useDatabase(
  server: 'postgres' | 'mariadb' | 'mysql',
  connect: Connect,
  create: (name: string, server: Runner) => Promise<void>,
  drop: (name: string, server: Runner) => Promise<void>,
): TestDatabase {
  const name = `test_${randomBytes(6).toString('hex')}`;
  let url: string | undefined;
  const onServer = new Connections(async () => connect(await addressOf(server)));
  const onDatabase = new Connections(() => connect(made()));

  beforeAll(async () => {
    await create(name, onServer);
    url = withDatabase(await addressOf(server), name);
  }, START_LIMIT_MS);

  afterAll(async () => {
    await onDatabase.end();
    if (url) await drop(name, onServer);
    await onServer.end();
  });

  const made = (): string => {
    if (url === undefined) throw new Error('The database does not exist before beforeAll');
    return url;
  };
  return {
    get settings() {
      return settingsOf(made());
    },
    get url() {
      return made();
    },
    query: async <Row>(sql: string, values?: readonly unknown[]) =>
      (await onDatabase.run(sql, values)) as Row[],
  };
}

/**
 * Opens as many connections as statements run at the same time. Keeps one open for the next statement, because
 * connecting takes longer than a statement.
 */
class Connections implements Runner {
  #idle: Connection | undefined;

  constructor(private readonly connect: () => Promise<Connection>) {}

  async run(sql: string, values: readonly unknown[] = []): Promise<unknown[]> {
    const connection = this.#takeIdle() ?? (await this.connect());
    try {
      const rows = await connection.run(sql, values);
      this.#idle ??= connection;
      return rows;
    } finally {
      if (this.#idle !== connection) await connection.end();
    }
  }

  #takeIdle(): Connection | undefined {
    const connection = this.#idle;
    this.#idle = undefined;
    return connection;
  }

  async end(): Promise<void> {
    await this.#takeIdle()?.end();
  }
}

/** The URL of the server that this test run shares. The first request starts the server. */
async function addressOf(server: 'postgres' | 'mariadb' | 'mysql'): Promise<string> {
  const response = await fetchAgain(`${process.env['TEST_SERVERS_URL']}/${server}`);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

async function connectPostgres(url: string): Promise<Connection> {
  const client = new pg.Client({ connectionString: url, statement_timeout: QUERY_LIMIT_MS });
  await client.connect();
  return {
    run: async (sql, values) =>
      (await client.query<Record<string, unknown>>(sql, [...values])).rows,
    end: () => client.end(),
  };
}

async function connectMariaDb(url: string): Promise<Connection> {
  const seconds = QUERY_LIMIT_MS / 1_000;
  const connection = await createConnection(url);
  await connection.query(
    `SET lock_wait_timeout = ${seconds}, innodb_lock_wait_timeout = ${seconds}`,
  );
  return {
    run: async (sql, values) => {
      const [rows] = await connection.query(sql, [...values]);
      return Array.isArray(rows) ? rows : [];
    },
    end: () => connection.end(),
  };
}

function withDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

function settingsOf(databaseUrl: string): ConnectionSettings {
  const { protocol, hostname, port, username, password, pathname } = new URL(databaseUrl);
  return {
    host: hostname,
    port: Number(port) || (protocol.startsWith('postgres') ? 5432 : 3306),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
  };
}
