import { afterAll, beforeAll } from '@jest/globals';
import { createConnection } from 'mysql2/promise';
import pg from 'pg';
import { randomBytes } from 'node:crypto';
import { fetchAgain } from './fetch-again.js';

/** What `pg` and `mysql2` take to connect, and what hands its settings to them. */
export interface ConnectionSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** An empty database for one spec file or `describe`, there from its first `beforeAll` to its end. */
export interface TestDatabase {
  readonly settings: ConnectionSettings;
  /** The same for what takes a URL: `postgres://…` or `mysql://…` */
  readonly url: string;
  /**
   * Runs one statement beside every transaction of the test: on a connection of its own, committed
   * at once. Values are `$1` in PostgreSQL, `?` in MariaDB.
   *
   * @throws Error of the server, also when a lock is not free within `QUERY_LIMIT_MS`.
   */
  query<Row = Record<string, unknown>>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
}

export const QUERY_LIMIT_MS = 10_000;

/** Long enough for a server that starts while everything else runs. */
const START_LIMIT_MS = 90_000;

type RunStatement = (url: string, sql: string, values: readonly unknown[]) => Promise<unknown[]>;

/** A database on the PostgreSQL of this test run. Call it where `beforeAll` may be called. */
export function usePostgres(): TestDatabase {
  // FORCE cuts connections that a failed test left open.
  return useDatabase('postgres', queryPostgres, (name) => `DROP DATABASE ${name} WITH (FORCE)`);
}

/** A database on the MariaDB of this test run. Call it inside `describeWithMariaDb`. */
export function useMariaDb(): TestDatabase {
  return useDatabase('mariadb', queryMariaDb, (name) => `DROP DATABASE ${name}`);
}

/** A database on the MySQL of this test run. Call it inside `describeWithMySql`. */
export function useMySql(): TestDatabase {
  return useDatabase('mysql', queryMariaDb, (name) => `DROP DATABASE ${name}`);
}

function useDatabase(
  server: 'postgres' | 'mariadb' | 'mysql',
  run: RunStatement,
  dropStatement: (name: string) => string,
): TestDatabase {
  const name = `test_${randomBytes(6).toString('hex')}`;
  let serverUrl: string | undefined;
  let url: string | undefined;

  beforeAll(async () => {
    serverUrl = await addressOf(server);
    await run(serverUrl, `CREATE DATABASE ${name}`, []);
    url = withDatabase(serverUrl, name);
  }, START_LIMIT_MS);

  afterAll(async () => {
    if (serverUrl && url) await run(serverUrl, dropStatement(name), []);
  });

  const made = (): string => {
    if (url === undefined) throw new Error('The database is there from beforeAll on, not before');
    return url;
  };
  return {
    get settings() {
      return settingsOf(made());
    },
    get url() {
      return made();
    },
    query: async <Row>(sql: string, values: readonly unknown[] = []) =>
      (await run(made(), sql, values)) as Row[],
  };
}

/** Where the server is that this test run shares; it is started when it does not run yet. */
async function addressOf(server: 'postgres' | 'mariadb' | 'mysql'): Promise<string> {
  const response = await fetchAgain(`${process.env['TEST_SERVERS_URL']}/${server}`);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

async function queryPostgres(
  url: string,
  sql: string,
  values: readonly unknown[],
): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url, statement_timeout: QUERY_LIMIT_MS });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql, [...values])).rows;
  } finally {
    await client.end();
  }
}

async function queryMariaDb(
  url: string,
  sql: string,
  values: readonly unknown[],
): Promise<unknown[]> {
  const seconds = QUERY_LIMIT_MS / 1_000;
  const connection = await createConnection(url);
  try {
    await connection.query(
      `SET lock_wait_timeout = ${seconds}, innodb_lock_wait_timeout = ${seconds}`,
    );
    const [rows] = await connection.query(sql, [...values]);
    return Array.isArray(rows) ? rows : [];
  } finally {
    await connection.end();
  }
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
