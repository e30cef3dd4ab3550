import { describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import { ClsPluginTransactional } from '@nestjs-cls/transactional';
import { CompiledQuery, type ControlledTransaction, Kysely, PostgresDialect } from 'kysely';
import { ClsModule } from 'nestjs-cls';
import { RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { lockAwareAdapter, type LockAwareAdapterOptions } from 'nestjs-locked/nestjs-cls';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { type Body, clsOrm, openPool } from './cls-orm.js';
import { describeLockContract } from './lock-contract.js';
import type { Isolation } from './orm-under-test.js';
import { describePropagation } from './propagation-suite.js';

// Stands in for the nestjs-cls adapter of Kysely, which was not available, and does what its documentation says.
const KYSELY = clsOrm('Kysely', (url) => {
  const pool = openPool(url);
  const connection = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
  type Tx = Kysely<unknown>;
  const optionsFactory = (kysely: Tx) => ({
    wrapWithTransaction: async (
      { isolationLevel = 'read committed' }: { isolationLevel?: Isolation },
      body: Body,
      setTx: (tx?: Tx) => void,
    ): Promise<unknown> => {
      const tx = await kysely.startTransaction().setIsolationLevel(isolationLevel).execute();
      try {
        setTx(tx);
        const result: unknown = await body();
        await tx.commit().execute();
        return result;
      } catch (error) {
        await tx.rollback().execute();
        throw error;
      }
    },
    wrapWithNestedTransaction: async (
      _: unknown,
      body: Body,
      setTx: (tx?: Tx) => void,
      outer: Tx,
    ): Promise<unknown> => {
      const name = uniqueKey('savepoint').replace('-', '_');
      const tx = await (outer as ControlledTransaction<unknown>).savepoint(name).execute();
      try {
        setTx(tx);
        const result: unknown = await body();
        await tx.releaseSavepoint(name).execute();
        return result;
      } catch (error) {
        await tx.rollbackToSavepoint(name).execute();
        throw error;
      }
    },
    getFallbackInstance: () => kysely,
  });
  return {
    adapter: lockAwareAdapter({ connection, optionsFactory }, { pool }),
    isolated: (isolationLevel) => ({ isolationLevel }),
    runs: (tx: Tx) => ({
      query: async (text, params) => (await tx.executeQuery(CompiledQuery.raw(text, params))).rows,
    }),
    close: () => connection.destroy(),
  };
});

describeLockContract(KYSELY, { roundTrips: 0 });
describePropagation(KYSELY);

describe('at start, Kysely', () => {
  const redis = useRedis();
  const kysely = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: openPool('postgres://nowhere') }),
  });
  const optionsFactory = (connection: Kysely<unknown>) => ({
    wrapWithTransaction: (_: unknown, body: Body) => connection.transaction().execute(body),
    getFallbackInstance: () => connection,
  });
  const warningsOf = async (
    lockOptions: Omit<RedisLockModuleOptions, 'connection'>,
    options?: LockAwareAdapterOptions,
  ): Promise<string[]> => {
    const warnings: string[] = [];
    const quiet = (): void => {};
    const adapter = lockAwareAdapter({ connection: kysely, optionsFactory }, options);
    const app = await NestFactory.createApplicationContext(
      {
        module: class Root {},
        imports: [
          ClsModule.forRoot({ plugins: [new ClsPluginTransactional({ adapter })] }),
          RedisLockModule.forRoot({ connection: redis.url, ...lockOptions }),
        ],
      },
      {
        logger: { log: quiet, error: quiet, warn: (text: string) => void warnings.push(text) },
        abortOnError: false,
      },
    );
    await app.close();
    return warnings;
  };

  it('warns once that nothing listens to its clients, with the code to write [D91]', async () => {
    expect(await warningsOf({ fence: {} })).toEqual([
      expect.stringMatching(/connection 'default'.*lockAwareAdapter\(adapter, \{ pool \}\)/),
    ]);
    expect(await warningsOf({ transactionTimeouts: true }, { connectionName: 'books' })).toEqual([
      expect.stringMatching(/connection 'books'/),
    ]);
  });

  it.each([
    ['no time-outs are on', {}, undefined],
    ['the fence has none', { fence: {}, transactionTimeouts: false }, undefined],
    ['the pool is given', { fence: {} }, { pool: openPool('postgres://nowhere') }],
    ['the options say that there is none', { fence: {} }, { pool: false as const }],
  ])('does not warn if %s', async (_, lockOptions, options) => {
    expect(await warningsOf(lockOptions, options)).toEqual([]);
  });
});
