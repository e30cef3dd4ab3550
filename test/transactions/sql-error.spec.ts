import { describe, expect, it } from '@jest/globals';
import {
  isMissingTable,
  isNotUnderstood,
  isRefusedCommit,
  sqlErrorCode,
} from '../../libs/nestjs-locked/src/transactions/sql/sql-error.js';

/** As seen, from the outside in. */
const prisma = (cause: object): Error =>
  Object.assign(new Error('Raw query failed'), {
    code: 'P2010',
    meta: { driverAdapterError: Object.assign(new Error(), { cause }) },
  });
const sequelize = (original: object): Error =>
  Object.assign(new Error(), { original, parent: original });

describe('the code of a database error', () => {
  it.each([
    ['pg', { code: '40001' }, '40001'],
    ['mysql2', { code: 'ER_LOCK_DEADLOCK', errno: 1213, sqlState: '40001' }, 1213],
    ['TypeORM', { driverError: { code: '23505' } }, '23505'],
    ['Drizzle', { cause: { code: '23505' } }, '23505'],
    ['Sequelize', sequelize({ code: '40001' }), '40001'],
    ['Sequelize on MySQL', sequelize({ errno: 1213, code: 'ER_LOCK_DEADLOCK' }), 1213],
    ['Prisma', prisma({ originalCode: '40001', kind: 'TransactionWriteConflict' }), '40001'],
    ['Prisma on MySQL', prisma({ originalCode: '1213', kind: 'TransactionWriteConflict' }), 1213],
    ['Prisma at COMMIT', { cause: { originalCode: '23505' } }, '23505'],
    ['Prisma with its own engine', { code: 'P2010', meta: { code: '40001' } }, '40001'],
    ['Prisma with its own engine, of a conflict', { code: 'P2034', meta: {} }, '40001'],
  ])('is found in those of %s [D84]', (_, error, code) => {
    expect(sqlErrorCode(error)).toBe(code);
  });

  it.each([
    ['nothing', undefined],
    ['a text', '40001'],
    ['an error of the application', new Error('no stock')],
    ['the operating system', { code: 'EPIPE', errno: -32 }],
    ['postgres.js itself', { code: 'CONNECTION_CLOSED', errno: 'CONNECTION_CLOSED' }],
    ['Prisma itself', { code: 'P2028', meta: { operation: 'commit' } }],
  ])('is not found in %s', (_, error) => {
    expect(sqlErrorCode(error)).toBeUndefined();
  });

  it('is found however the errors contain each other', () => {
    const ring: Record<string, unknown> = {};
    ring['cause'] = { original: ring, parent: { cause: ring } };
    expect(sqlErrorCode(ring)).toBeUndefined();
    ring['meta'] = { driverError: { code: '40P01' } };
    expect(sqlErrorCode(ring)).toBe('40P01');
  });

  it('is looked for in a bounded number of errors', () => {
    let read = 0;
    const endless = (): object => ({
      get cause() {
        read++;
        return endless();
      },
    });
    expect(sqlErrorCode(endless())).toBeUndefined();
    expect(read).toBeLessThan(50);
  });
});

describe('a COMMIT that failed', () => {
  it.each(['COMMIT', 'commit', 'COMMIT;'])('was refused if that is the statement: %s', (sql) => {
    expect(isRefusedCommit({ code: '23505', query: sql })).toBe(true);
    expect(isRefusedCommit({ sql, original: { code: '23505', sql } })).toBe(true);
  });

  it('is in doubt if other statements follow it in its text', () => {
    expect(isRefusedCommit({ errno: 1062, sql: 'COMMIT; INSERT INTO sold VALUES (1)' })).toBe(
      false,
    );
  });

  it('is in doubt if a hook has put the error of its own statement in the place of the answer', () => {
    const sql = 'INSERT INTO audit VALUES (1)';
    expect(isRefusedCommit({ code: '42P01', query: sql })).toBe(false);
    expect(isRefusedCommit({ sql, original: { code: '42P01', sql } })).toBe(false);
  });

  it.each([
    ['40001', 'a serialization failure'],
    ['40P01', 'a deadlock'],
    ['23505', 'a deferred constraint'],
    ['P0001', 'an exception of a deferred trigger'],
    ['42501', 'a permission that a deferred trigger lacks'],
    ['57014', 'a deferred trigger that takes too long'],
    ['25P03', 'a connection that was ended while nothing had been sent'],
    ['AB123', 'a code of the application'],
  ])('was refused with %s: %s', (code) => {
    expect(isRefusedCommit({ code })).toBe(true);
    expect(isRefusedCommit(sequelize({ code }))).toBe(true);
    expect(isRefusedCommit(prisma({ originalCode: code }))).toBe(true);
  });

  it.each([
    ['08006', 'a lost connection'],
    ['57P01', 'a server that is shut down'],
    ['58030', 'a disk that fails'],
    ['XX000', 'an internal error'],
    ['40003', 'an answer that says so'],
    ['EPIPE', 'a lost connection of the operating system'],
    ['', 'no answer'],
  ])('is in doubt with %s: %s', (code) => {
    expect(isRefusedCommit({ code })).toBe(false);
    expect(isRefusedCommit(sequelize({ code }))).toBe(false);
    expect(isRefusedCommit(prisma({ originalCode: code }))).toBe(false);
  });

  it.each([1020, 1062, 1064, 1205, 1213, 1290, 1451, 1452, 3101])(
    'was refused by MySQL with %s',
    (errno) => {
      expect(isRefusedCommit(sequelize({ errno }))).toBe(true);
      expect(isRefusedCommit(prisma({ originalCode: String(errno) }))).toBe(true);
    },
  );

  it.each([1053, 1317, 1927])('is in doubt with %s of MySQL', (errno) => {
    expect(isRefusedCommit(sequelize({ errno }))).toBe(false);
  });

  it('was not sent if Prisma had ended the transaction before', () => {
    expect(isRefusedCommit({ code: 'P2028', meta: { operation: 'commit' } })).toBe(true);
  });
});

describe('a COMMIT that MySQL may not have understood', () => {
  const errno = 1064;
  const other = 'INSERT nothing';

  it('was not, by an error that tells no statement, or that one only', () => {
    expect(isNotUnderstood({ errno }, 'COMMIT')).toBe(true);
    expect(isNotUnderstood({ errno, sql: 'COMMIT' }, 'COMMIT')).toBe(true);
  });

  it('was understood if the error is also of another statement, such as that of a hook', () => {
    expect(isNotUnderstood({ errno, sql: other }, 'COMMIT')).toBe(false);
    const ofHook = { query: 'COMMIT', driverError: { errno, sql: other } };
    expect(isNotUnderstood(ofHook, 'COMMIT')).toBe(false);
  });
});

it.each([
  prisma({ originalCode: '42P01', kind: 'TableDoesNotExist' }),
  sequelize({ code: '42P01' }),
  sequelize({ errno: 1146 }),
])('a missing table is known as such', (error) => {
  expect(isMissingTable(error)).toBe(true);
});
