import { beforeEach, describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-locked';
import { fenceTableSql, pruneFenceTable } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { type TestDatabase, useMariaDb, useMySql, usePostgres } from '../support/databases.js';
import { describeWithMariaDb, describeWithMySql } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { spyOnWarnings } from '../support/spy-on-warnings.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';

const redis = useRedis();

const DAY_US = 86_400_000_000;

/** What a token of so many days ago is. */
const daysAgo = (days: number): number => Date.now() * 1_000 - days * DAY_US;

function pruning(dialect: 'postgres' | 'mysql', useDatabase: () => TestDatabase): void {
  const database = useDatabase();
  let table: string;
  let dataSource: DataSource;

  beforeEach(async () => {
    dataSource = await openDataSource(dialect, database.settings, 1);
    table = uniqueKey('fence').replace('-', '_');
    await database.query(fenceTableSql({ dialect, table }));
  });

  const prune = (more: object = {}): Promise<number> =>
    pruneFenceTable((sql, params) => dataSource.query(sql, params), { dialect, table, ...more });

  const insert = async (rows: readonly (readonly [string, number])[]): Promise<void> => {
    const values = rows.map(([key, token]) => `('${key}', ${token})`).join(', ');
    await database.query(`INSERT INTO ${table} VALUES ${values}`);
  };

  const left = async (): Promise<string[]> => {
    const rows = await database.query<{ lock_key: string | Buffer }>(
      `SELECT lock_key FROM ${table} ORDER BY lock_key`,
    );
    return rows.map(({ lock_key }) => lock_key.toString());
  };

  it('deletes what is older than a week, and nothing else [D81]', async () => {
    await insert([
      ['a', daysAgo(8)],
      ['b', daysAgo(6)],
      ['c', daysAgo(400)],
      ['d', daysAgo(0)],
    ]);
    expect(await prune()).toBe(2);
    expect(await left()).toEqual(['b', 'd']);
    expect(await prune({ olderThanMs: (5 * DAY_US) / 1_000 })).toBe(1);
    expect(await left()).toEqual(['d']);
  });

  it('goes through tables of any size', async () => {
    const keys = Array.from({ length: 2_500 }, (_, n) => `key-${String(n).padStart(5, '0')}`);
    await insert(keys.map((key, n) => [key, daysAgo(n % 3 === 0 ? 1 : 30)] as const));
    expect(await prune()).toBe(1_666);
    expect(await left()).toEqual(keys.filter((_, n) => n % 3 === 0));
    expect(await prune()).toBe(0);
  });

  it('measures by the newest token where the clock that gave the tokens is behind', async () => {
    await insert([
      ['used now', daysAgo(1_000)],
      ['used yesterday', daysAgo(1_001)],
      ['used long ago', daysAgo(1_020)],
    ]);
    expect(await prune()).toBe(1);
    expect(await left()).toEqual(['used now', 'used yesterday']);
  });

  it('does nothing to an empty table, and refuses an age that could be that of a transaction', async () => {
    expect(await prune()).toBe(0);
    await expect(prune({ olderThanMs: 3_600_000 })).rejects.toBeInstanceOf(LockConfigError);
    await expect(prune({ olderThanMs: 0 })).rejects.toThrow(/olderThanMs: 0 must be/);
    await expect(prune({ table: 'a; DROP TABLE b' })).rejects.toThrow(/Invalid option/);
  });

  it('under a lock is not warned of as work without the fence', async () => {
    await insert([
      ['fresh', daysAgo(0)],
      ['old', daysAgo(30)],
    ]);
    lockAwareDataSource(dataSource);
    const { locks } = await startLocks(redis.url, { fence: { table } });
    const warnings = spyOnWarnings();
    expect(await locks.withLock(uniqueKey('nightly'), () => prune())).toBe(1);
    expect(await left()).toEqual(['fresh']);
    expect(warnings()).toEqual([]);
  });

  it('passes over a row that is being claimed, and lets nobody wait for it [D81]', async () => {
    await insert([
      ['claimed', daysAgo(30)],
      ['fresh', daysAgo(0)],
      ['old', daysAgo(30)],
    ]);
    const claiming = (await openDataSource(dialect, database.settings)).createQueryRunner();
    await claiming.startTransaction();
    await claiming.query(`UPDATE ${table} SET token = ${daysAgo(0)} WHERE lock_key = 'claimed'`);
    const pruning = prune();
    await (dialect === 'postgres' ? pruning : sleep(500)); // MySQL waits for that row alone
    await claiming.commitTransaction();
    await claiming.release();
    await pruning;
    expect(await left()).toEqual(['claimed', 'fresh']);
  });
}

describe('pruneFenceTable on PostgreSQL', () => pruning('postgres', usePostgres));
describeWithMariaDb('pruneFenceTable on MariaDB', () => pruning('mysql', useMariaDb));
describeWithMySql('pruneFenceTable on MySQL', () => pruning('mysql', useMySql));
