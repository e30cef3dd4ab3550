import { describe, expect, it } from '@jest/globals';
import { endingIn } from '../../libs/nestjs-locked/src/transactions/sql/transaction-endings.js';

const DIALECTS = ['postgres', 'mysql', undefined] as const;

describe.each(DIALECTS)('the end of a transaction in a text of any dialect: %s', (dialect) => {
  it.each([
    ['COMMIT', 'commit'],
    [' commit work;', 'commit'],
    ['-- done\nCOMMIT AND CHAIN', 'commit'],
    ['/* done */COMMIT', 'commit'],
    ['UPDATE t SET a = 1; COMMIT; BEGIN', 'commit'],
    ['ROLLBACK', 'rollback'],
    ['ROLLBACK AND CHAIN', 'rollback'],
    ['ROLLBACK; UPDATE t SET a = 1', 'mixed'],
    [String.raw`SELECT '\'; COMMIT; SELECT 'a'`, 'commit'],
    [String.raw`SELECT 'a\''; COMMIT`, 'commit'],
    [String.raw`UPDATE t SET path = 'C:\'; ROLLBACK; SELECT 'a'`, 'mixed'],
  ])('%s: %s', (sql, ending) => {
    expect(endingIn(sql, dialect)).toBe(ending);
  });

  it.each([
    'SELECT 1',
    'ROLLBACK TO SAVEPOINT a',
    'ROLLBACK WORK TO a',
    'ROLLBACK/* not all */TO a',
    "INSERT INTO log VALUES ('a; COMMIT; it''s')",
    'SELECT "commit" FROM t /* ; COMMIT */ -- ; COMMIT',
    'SELECT CASE WHEN a THEN 1 END FROM t',
    'INSERT INTO commit VALUES (1)',
    String.raw`INSERT INTO paths VALUES ('C:\', '; COMMIT')`,
    String.raw`INSERT INTO log VALUES ('it\'s; COMMIT')`,
    `INSERT INTO log VALUES ('${'; COMMIT \n'.repeat(100_000)}')`,
  ])('%.80s: none', (sql) => {
    expect(endingIn(sql, dialect)).toBeUndefined();
  });
});

describe('the end of a transaction in a text of PostgreSQL', () => {
  it.each([
    ['END', 'commit'],
    ["PREPARE TRANSACTION 'x'", 'prepare'],
    ['abort;', 'rollback'],
    [String.raw`SELECT E'\'; ', 'a'; COMMIT`, 'commit'],
    [String.raw`SELECT U&'\'; COMMIT; SELECT 'a'`, 'commit'],
    ["SELECT name' a'; COMMIT; SELECT 'a'", 'commit'],
    ['SELECT $1$2; COMMIT; SELECT $1$2', 'commit'],
    ['SELECT a$b$; COMMIT; SELECT a$b$', 'commit'],
    ['SELECT $a$ $b$ $a$; COMMIT; SELECT $c$ $a$ $c$', 'commit'],
    ['SELECT 1 --\rCOMMIT\n; COMMIT', 'commit'],
    ['/* /* */ */ COMMIT', 'commit'],
    ['SELECT CASE a WHEN 1 THEN 2 END; END', 'commit'],
    [
      'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END; COMMIT',
      'commit',
    ],
    ['CREATE TABLE t (begin int); END', 'commit'],
    ['CREATE VIEW v (begin, atomic) AS SELECT 1, 2; SELECT 1; COMMIT; SELECT 1', 'commit'],
    ['CREATE VIEW v AS SELECT begin, atomic FROM t; COMMIT', 'commit'],
    ['CREATE TABLE t (begin atomic); COMMIT', 'commit'],
    ['SELECT a # b; COMMIT', 'commit'],
    ['SELECT 1 --COMMIT\n;COMMIT', 'commit'],
  ])('%s: %s', (sql, ending) => {
    expect(endingIn(sql, 'postgres')).toBe(ending);
  });

  it.each([
    'DO $body$ BEGIN PERFORM 1; END; $body$',
    'DO $$ BEGIN PERFORM 1; END $$',
    'DO $é$ BEGIN PERFORM $a$ $$ $a$; END; $é$',
    'PREPARE statement AS SELECT 1',
    "COMMIT PREPARED 'x'",
    "ROLLBACK PREPARED 'x'",
    'rollback transaction to savepoint a',
    '/* /* */ ; COMMIT */ SELECT 1',
    'SELECT 1 --; COMMIT',
    String.raw`SELECT E'it\'s; COMMIT'`,
    'SELECT "a""; COMMIT"',
    String.raw`SELECT U&"\" FROM t WHERE a = '; COMMIT'`,
    `CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC
       UPDATE t SET a = CASE WHEN a > 1 THEN 1 END; SELECT 1; END`,
    'CREATE OR REPLACE PROCEDURE p(a int) BEGIN ATOMIC INSERT INTO t VALUES (a); END;',
    'CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$',
    'CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM a; DELETE FROM b)',
  ])('%s: none', (sql) => {
    expect(endingIn(sql, 'postgres')).toBeUndefined();
  });
});

describe('the end of a transaction in a text of MySQL', () => {
  it.each([
    ['/*! COMMIT */', 'commit'],
    ['/*!50000COMMIT*/', 'commit'],
    ['/*M!100100 COMMIT */', 'commit'],
    ['/*! SELECT 1 */; COMMIT', 'commit'],
    ['/* /* */ COMMIT', 'commit'],
    ['SELECT 1 --1\n; COMMIT', 'commit'],
    ['SELECT 4--1; COMMIT', 'commit'],
    ['# done\nCOMMIT', 'commit'],
    [String.raw`SELECT "\""; COMMIT`, 'commit'],
    ['SELECT `a``b`; ROLLBACK', 'mixed'],
    ['SELECT $$; COMMIT; SELECT $$', 'commit'],
    ["COMMIT; SELECT '", 'commit'],
    ['BEGIN NOT ATOMIC UPDATE t SET a = 1; COMMIT; END', 'commit'],
  ])('%s: %s', (sql, ending) => {
    expect(endingIn(sql, 'mysql')).toBe(ending);
  });

  it.each([
    'SELECT 1 # ; COMMIT',
    'SELECT 1 -- ; COMMIT',
    '-- done',
    String.raw`SELECT "it\"s; COMMIT"`,
    'SELECT `a; COMMIT`',
    "PREPARE s FROM 'SELECT 1'",
    'BEGIN NOT ATOMIC UPDATE t SET a = 1; END',
    // It commits by itself, which the gate learns from the server.
    'CREATE PROCEDURE p() BEGIN UPDATE t SET a = 1; COMMIT; END',
  ])('%s: none', (sql) => {
    expect(endingIn(sql, 'mysql')).toBeUndefined();
  });
});
