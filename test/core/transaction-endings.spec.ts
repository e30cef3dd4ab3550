import { describe, expect, it } from '@jest/globals';
import { endingIn } from '../../libs/nestjs-locked/src/transactions/sql/transaction-endings.js';

describe('the end of a transaction in a text', () => {
  it.each([
    ['COMMIT', 'commit'],
    [' commit work;', 'commit'],
    ['END', 'commit'],
    ['-- done\nCOMMIT AND CHAIN', 'commit'],
    ['UPDATE t SET a = 1; COMMIT; BEGIN', 'commit'],
    ["PREPARE TRANSACTION 'x'", 'prepare'],
    ['ROLLBACK', 'rollback'],
    ['abort;', 'rollback'],
    ['ROLLBACK AND CHAIN', 'rollback'],
    ['ROLLBACK; UPDATE t SET a = 1', 'mixed'],
  ])('%s: %s', (sql, ending) => {
    expect(endingIn(sql)).toBe(ending);
  });

  it.each([
    'SELECT 1',
    'ROLLBACK TO SAVEPOINT a',
    'ROLLBACK WORK TO a',
    'rollback transaction to savepoint a',
    "INSERT INTO log VALUES ('a; COMMIT; it''s')",
    'SELECT "commit" FROM t /* ; COMMIT */ -- ; COMMIT',
    'SELECT CASE WHEN a THEN 1 END FROM t',
    'DO $body$ BEGIN PERFORM 1; END; $body$',
    'DO $$ BEGIN PERFORM 1; END $$',
    'PREPARE statement AS SELECT 1',
    "COMMIT PREPARED 'x'",
    "ROLLBACK PREPARED 'x'",
    'INSERT INTO commit VALUES (1)',
  ])('%s: none', (sql) => {
    expect(endingIn(sql)).toBeUndefined();
  });
});
