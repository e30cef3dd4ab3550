import { describe, expect, it } from '@jest/globals';
import { LockConfigError, LockInTransactionError } from 'nestjs-locked';
import { TestLocks } from 'nestjs-locked/testing';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lazy } from '../support/lazy.js';

describe('lockAwareTransactions', () => {
  it('says so if a transaction was run without its body having been wrapped', async () => {
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const sale = run(async () => 'committed');
    await expect(sale).rejects.toBeInstanceOf(LockConfigError);
    await expect(sale).rejects.toThrow(/wrap\(tx, body\)/);
  });

  it('leaves the error of a transaction that could not be opened as it is', async () => {
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const refused = new Error('too many connections');
    await expect(run(() => Promise.reject(refused))).rejects.toBe(refused);
  });

  it.each([
    ['an unknown dialect', () => lockAwareTransactions({ dialect: 'oracle' as never })],
    ['no function', () => lockAwareTransactions()('BEGIN' as never)],
  ])('refuses %s', (_, call) => {
    expect(call).toThrow(LockConfigError);
  });

  it.each<[unknown, string]>([
    [null, 'Invalid options: null must be an object'],
    [{ conectionName: 'a' }, "Unknown option 'conectionName': did you mean 'connectionName'?"],
    [{ connectionName: 5 }, 'Invalid option connectionName: 5 must be a string'],
    [{ query: 'SELECT' }, "Invalid option query: 'SELECT' must be a function"],
    [{ pool: 'postgres://a' }, "Invalid option pool: 'postgres://a' must be a pool of node-postgr"],
    [{ pool: null }, 'Invalid option pool: null must be a pool of node-postgres, or a Sequelize'],
    [{ survivesDisconnect: 'no' }, "Invalid option survivesDisconnect: 'no' must be true or false"],
  ])('refuses %j as options', (options, message) => {
    const make = (): unknown => lockAwareTransactions(options as never);
    expect(make).toThrow(LockConfigError);
    expect(make).toThrow(message);
  });

  it.each<[unknown, string]>([
    [null, 'Invalid options: null must be an object'],
    [{ isolationLevel: 'a' }, "Unknown option 'isolationLevel': there are isolation, timeoutMs"],
    [{ isolation: 5 }, 'Invalid option isolation: 5 must be the name of a level'],
    [
      { timeoutMs: '5' },
      "Invalid option timeoutMs: '5' must be a number of milliseconds, 0 or more",
    ],
  ])('refuses %j for one transaction, before it is opened', (given, message) => {
    let isOpened = false;
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const open = async (): Promise<void> => void (isOpened = true);
    const call = (): unknown => run(open, given as never);
    expect(call).toThrow(LockConfigError);
    expect(call).toThrow(message);
    expect(isOpened).toBe(false);
  });

  it('sees what its body gives and what begins only when it is awaited', async () => {
    const locks = new TestLocks().service();
    const run = lockAwareTransactions<object>({ dialect: 'postgres' });
    const asking = lazy(() => locks.withLock('key', () => 'granted'));
    const refused = run<string>((wrap) => wrap({}, () => asking));
    await expect(refused).rejects.toBeInstanceOf(LockInTransactionError);
  });

  it('refuses a body that is no function', async () => {
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const failing = run((wrap) => wrap({}, undefined as never));
    await expect(failing).rejects.toBeInstanceOf(LockConfigError);
    await expect(failing).rejects.toThrow('must be a function; write wrap(tx, (tx) => …)');
  });

  it.each([undefined, null, 'tx'])('refuses %j as a transaction', async (tx) => {
    const run = lockAwareTransactions({ dialect: 'postgres' });
    const failing = run((wrap) => wrap(tx as never, async () => {}));
    await expect(failing).rejects.toBeInstanceOf(LockConfigError);
    await expect(failing).rejects.toThrow('must be an object; write wrap(tx, (tx) => …)');
  });
});
