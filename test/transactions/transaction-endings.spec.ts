import { describe, expect, it } from '@jest/globals';
import {
  commitsByBeginning,
  endingIn,
} from '../../libs/nestjs-locked/src/transactions/sql/transaction-endings.js';

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
    ["SELECT E'a'\n'\\'', '\\'; COMMIT; --'", 'commit'],
    ["SELECT E'a' -- b'\n -- c\n'\\'', '\\'; COMMIT; --'", 'commit'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 AS case; END; COMMIT', 'commit'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 case; END; COMMIT', 'commit'],
    ['CREATE FUNCTION f() RETURNS void BEGIN ATOMIC END; COMMIT', 'commit'],
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
    'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 AS end; SELECT 2; END',
    'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 end; SELECT t.end FROM t; END',
    "SELECT E'a'\n'b\\'; COMMIT; '",
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
    ['BEGIN NOT ATOMIC COMMIT; UPDATE t SET a = 1; END', 'commit'],
    ['BEGIN NOT ATOMIC ROLLBACK; UPDATE t SET a = 1; END', 'mixed'],
    ['begin not atomic if 1 then commit and chain; end if; end', 'commit'],
    ['IF 1 THEN COMMIT WORK; END IF', 'commit'],
    ['REPEAT COMMIT; UNTIL 1 END REPEAT', 'commit'],
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
    'BEGIN NOT ATOMIC ROLLBACK TO a; UPDATE t SET a = 1; END',
    'BEGIN NOT ATOMIC SELECT CASE a WHEN 1 THEN commit ELSE 2 END FROM t; END',
    'SELECT CASE a WHEN 1 THEN 2 ELSE commit END FROM t',
    'SELECT CASE a WHEN 1 THEN 2 END, 3 else_commit, commit FROM t',
    // It commits by itself, which the gate learns from the server.
    'CREATE PROCEDURE p() BEGIN UPDATE t SET a = 1; COMMIT; END',
  ])('%s: none', (sql) => {
    expect(endingIn(sql, 'mysql')).toBeUndefined();
  });
});

describe('a text of MySQL that begins a transaction', () => {
  it.each([
    'START TRANSACTION READ ONLY',
    ' begin;',
    'BEGIN WORK',
    '/*! BEGIN */',
    'SELECT 1; start transaction',
    'SET autocommit=1',
    'SET @a = 1, SESSION autocommit := ON',
    'SET @@session.autocommit = TRUE',
  ])('commits: %s', (sql) => {
    expect(commitsByBeginning(sql)).toBe(true);
  });

  it.each([
    'BEGIN NOT ATOMIC BEGIN UPDATE t SET a = 1; END; END',
    'SET autocommit = 0',
    'SET @autocommit = 1',
    'SET GLOBAL autocommit = 1',
    "INSERT INTO log VALUES ('; START TRANSACTION; ')",
    'SELECT begin FROM start',
    'START SLAVE',
  ])('is no other one: %s', (sql) => {
    expect(commitsByBeginning(sql)).toBe(false);
  });
});

describe('what follows a CREATE in MySQL', () => {
  it.each([
    'CREATE TEMPORARY TABLE t (event int); COMMIT',
    'CREATE TEMPORARY TABLE procedure_of_day (a int); COMMIT',
  ])('may end the transaction: %s', (sql) => {
    expect(endingIn(sql, 'mysql')).toBe('commit');
  });

  it.each([
    'CREATE FUNCTION f() RETURNS int BEGIN COMMIT; RETURN 1; END',
    "CREATE DEFINER = 'table' PROCEDURE p() BEGIN COMMIT; END",
    'CREATE TEMPORARY TABLE t (a int); CREATE PROCEDURE p() BEGIN SELECT 1; COMMIT; END',
  ])('may be the body of a routine: %s', (sql) => {
    expect(endingIn(sql, 'mysql')).toBeUndefined();
  });
});

describe('a long text', () => {
  it.each(['mysql', 'postgres'] as const)('is read in linear time (%s)', (dialect) => {
    const rows = Array.from({ length: 40_000 }, () => '(DEFAULT, ?, ?)').join(', ');
    const before = process.cpuUsage();
    expect(endingIn(`INSERT INTO booking(id, start, end) VALUES ${rows}`, dialect)).toBeUndefined();
    const usedMs = process.cpuUsage(before).user / 1_000;
    expect(usedMs).toBeLessThan(5_000); // some 0.1 s; 20 s if it grows with the square
  });

  it.each([
    ['postgres', `''`],
    ['postgres', `\\'`],
    ['mysql', `''`],
    ['mysql', '\\\\'],
  ] as const)('may have one long literal (%s: %s)', (dialect, part) => {
    const literal = part.repeat(4_000_000);
    for (const insert of [`INSERT INTO page VALUES ('${literal}')`, `SELECT E'${literal}'`]) {
      expect(endingIn(`${insert}; SELECT 'COMMIT'`, dialect)).toBeUndefined();
      expect(endingIn(`${insert}; COMMIT`, dialect)).toBeDefined();
    }
  });
});
