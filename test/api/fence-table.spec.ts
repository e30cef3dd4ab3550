import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-locked';
import {
  createFenceTable,
  fenceTableSql,
  pruneFenceTable,
  unfenced,
} from 'nestjs-locked/transactions';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LIBRARY } from './entry-points.js';

describe('the fence table', () => {
  it.each(['postgres', 'mysql'] as const)(
    'is the same for %s in the statement and in the file',
    (dialect) => {
      const file = readFileSync(join(LIBRARY, `sql/lock_fence.${dialect}.sql`), 'utf8');
      expect(file).toContain(`\n${fenceTableSql({ dialect })};\n`);
    },
  );

  it('may have another name and a schema, but no invalid name', () => {
    expect(fenceTableSql({ dialect: 'postgres', table: 'app.fences' })).toContain(' app.fences (');
    const wrong = [{ table: 'a; DROP TABLE b' }, { table: '' }, { dialect: 'oracle' as never }];
    for (const options of wrong) {
      expect(() => fenceTableSql({ dialect: 'mysql', ...options })).toThrow(/Invalid option/);
    }
  });

  it.each<[unknown, string]>([
    [{}, "Invalid option dialect: undefined must be 'postgres' or 'mysql'"],
    [undefined, 'Invalid options: undefined must be an object'],
    ['mysql', "Invalid options: 'mysql' must be an object"],
    [{ dialect: 'mysql', tabel: 'a' }, "Unknown option 'tabel': did you mean 'table'?"],
  ])('is neither made nor pruned with %j', async (wrong, message) => {
    const sent: string[] = [];
    const query = async (sql: string): Promise<unknown> => sent.push(sql);
    const options = wrong as never;
    for (const call of [
      async () => fenceTableSql(options),
      () => createFenceTable(query, options),
      () => pruneFenceTable(query, options),
    ]) {
      const failing = call();
      await expect(failing).rejects.toBeInstanceOf(LockConfigError);
      await expect(failing).rejects.toThrow(message);
    }
    expect(sent).toEqual([]);
  });

  it('may be pruned with an age of one day, but not less', async () => {
    const empty = async (sql: string): Promise<unknown> =>
      sql.includes('AS newest') ? [{ newest: '0' }] : [];
    const prune = (olderThanMs: number): Promise<number> =>
      pruneFenceTable(empty, { dialect: 'postgres', olderThanMs });
    const dayMs = 24 * 60 * 60 * 1_000;
    expect(await prune(dayMs)).toBe(0);
    await expect(prune(dayMs - 1)).rejects.toThrow('olderThanMs: 86399999 must be');
  });

  it('is created and pruned only by a function, as is everything that runs unfenced', async () => {
    const [data, options] = [{ query() {} } as never, { dialect: 'mysql' as const }];
    const misspelt = { ...options, olderThenMs: 1 };
    await expect(pruneFenceTable(async () => [], misspelt)).rejects.toThrow(
      "Unknown option 'olderThenMs': did you mean 'olderThanMs'?",
    );
    const calls: [() => unknown, string][] = [
      [() => createFenceTable(data, options), 'createFenceTable((sql) =>'],
      [() => pruneFenceTable(data, options), 'pruneFenceTable((sql, params) =>'],
      [async () => unfenced(5 as never), 'unfenced(() => …)'],
    ];
    for (const [call, usage] of calls) {
      const failing = call();
      await expect(failing).rejects.toBeInstanceOf(LockConfigError);
      await expect(failing).rejects.toThrow(` must be a function; write ${usage}`);
    }
  });
});
