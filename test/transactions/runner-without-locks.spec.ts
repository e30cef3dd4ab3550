import { describe, expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { EntitySchema, type QueryRunner } from 'typeorm';
import type { EventEmitter } from 'node:events';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { openDataSource } from './data-source.js';

const postgres = usePostgres();

const LINE = new EntitySchema<{ id?: number; line: string }>({
  name: 'Line',
  tableName: 'lines',
  columns: {
    id: { type: Number, primary: true, generated: true },
    line: { type: String },
  },
});

const save = (runner: QueryRunner, line: string): Promise<unknown> =>
  runner.manager.save(LINE, { line });

/** Programs on one query runner that use no lock. */
const PROGRAMS: Record<string, (runner: QueryRunner) => Promise<unknown>> = {
  'two that save at the same time share one transaction': async (runner) => {
    const saved = await Promise.allSettled([save(runner, 'a'), save(runner, 'b')]);
    return [saved.map(({ status }) => status), runner.isTransactionActive];
  },
  'a transaction is active as soon as it is requested': async (runner) => {
    const started = runner.startTransaction();
    const { isTransactionActive } = runner;
    await started;
    await runner.rollbackTransaction();
    return isTransactionActive;
  },
  'code that was started in a nested callback drives the runner later': async (runner) => {
    let later: Promise<unknown> | undefined;
    const { opened: goesOn, open: goOn } = makeGate();
    await runner.startTransaction();
    await runner.manager.transaction(async (manager) => {
      await manager.save(LINE, { line: 'nested' });
      later = goesOn.then(async () => {
        await runner.startTransaction();
        await save(runner, 'later');
        await runner.commitTransaction();
      });
    });
    await runner.commitTransaction();
    goOn();
    return later;
  },
  'nested callbacks continue after one whose hook has failed': async (runner) => {
    let starts = 0;
    runner.connection.subscribers.push({
      beforeTransactionStart: () => {
        if (++starts === 2) throw new Error('hook');
      },
    });
    const insert = (line: string): Promise<unknown> =>
      runner.query('INSERT INTO lines (line) VALUES ($1)', [line]);
    const fail = async (): Promise<void> => {
      await insert('failed');
      throw new Error('planned');
    };
    return runner.manager.transaction(async (manager) => {
      const nested = (work: () => Promise<unknown>): Promise<unknown> =>
        manager.transaction(work).catch((error: Error) => error.message);
      const told = [await nested(() => insert('a')), await nested(fail)];
      await nested(() => insert('b'));
      throw new Error(told.join());
    });
  },
  'its transactions leave nothing on the connection, also if a hook fails behind each COMMIT':
    async (runner) => {
      let isFailing = false;
      runner.connection.subscribers.push({
        afterTransactionCommit: () => {
          if (isFailing) throw new Error('hook');
        },
      });
      const client = (await runner.connect()) as EventEmitter;
      const round = async (): Promise<number> => {
        await runner.startTransaction();
        await save(runner, 'a').catch(() => {});
        await runner.commitTransaction().catch(() => {});
        return client.listenerCount('error');
      };
      const before = await round();
      const after = await round();
      isFailing = true;
      await round();
      return [after - before, (await round()) - before];
    },
  'nobody listens to its connection': async (runner) => {
    const client = (await runner.connect()) as EventEmitter;
    client.removeAllListeners('error');
    await runner.startTransaction();
    return client.listenerCount('error');
  },
  'its connection dies while it begins': async (runner) => {
    runner.connection.subscribers.push({
      afterTransactionStart: async () => {
        const [row] = (await runner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
        await postgres.query('SELECT pg_terminate_backend($1::int)', [row?.pid]);
        await eventually(() => expect(runner.isReleased).toBe(true));
      },
    });
    const client = (await runner.connect()) as EventEmitter;
    await runner.startTransaction();
    return client.listenerCount('error');
  },
  'a hook gives its connection back before its COMMIT': async (runner) => {
    runner.connection.subscribers.push({
      beforeQuery: async ({ query }) => {
        if (query === 'COMMIT') await runner.release();
      },
    });
    await runner.startTransaction();
    await save(runner, 'a');
    await runner.commitTransaction();
  },
  'a nested callback ends the transaction around it': async (runner) => {
    await runner.startTransaction();
    await save(runner, 'a');
    return runner.manager.transaction(async () => {
      await runner.commitTransaction();
      await runner.commitTransaction();
    });
  },
};

describe('a query runner driven manually without locks behaves as without the library', () => {
  it.each(Object.entries(PROGRAMS))('%s', async (_, program) => {
    const outcomes = [];
    for (const isLockAware of [false, true]) {
      await postgres.query('DROP TABLE IF EXISTS lines');
      await postgres.query('CREATE TABLE lines (id serial PRIMARY KEY, line text)');
      const dataSource = await openDataSource('postgres', postgres.settings, 1, {
        entities: [LINE],
      });
      const runner = (
        isLockAware ? lockAwareDataSource(dataSource) : dataSource
      ).createQueryRunner();
      const told = await program(runner).catch((error: Error) => `${error.name}: ${error.message}`);
      await runner.release();
      const lines = await postgres.query<{ line: string }>('SELECT line FROM lines ORDER BY line');
      outcomes.push({ told, lines: lines.map(({ line }) => line) });
    }
    expect(outcomes[1]).toEqual(outcomes[0]);
  });
});
