import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';

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
});
