import { describe, expect, it } from '@jest/globals';
import { fenceTableSql } from 'nestjs-locked/fence';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LIBRARY } from './entry-points.js';

describe('the fence table', () => {
  it.each(['postgres', 'mysql'] as const)(
    'is the same for %s as statement and as file',
    (dialect) => {
      const file = readFileSync(join(LIBRARY, `sql/lock_fence.${dialect}.sql`), 'utf8');
      expect(file).toContain(`\n${fenceTableSql({ dialect })};\n`);
    },
  );

  it('may have another name and a schema, and no name that is none', () => {
    expect(fenceTableSql({ dialect: 'postgres', table: 'app.fences' })).toContain(' app.fences (');
    const wrong = [{ table: 'a; DROP TABLE b' }, { table: '' }, { dialect: 'oracle' as never }];
    for (const options of wrong) {
      expect(() => fenceTableSql({ dialect: 'mysql', ...options })).toThrow(/Invalid option/);
    }
  });
});
