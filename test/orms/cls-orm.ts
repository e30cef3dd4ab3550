import { type INestApplicationContext, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import pg from 'pg';
import type { Runs } from '../transactions/stock.js';
import type { Isolation, OpenedOrm, OrmUnderTest } from './orm-under-test.js';
import type { Propagating } from './propagation-suite.js';

/* eslint-disable @typescript-eslint/no-explicit-any -- transactions of different ORMs */
export type Body = () => Promise<any>;

/** The parts of an ORM that `@nestjs-cls/transactional` needs. */
export interface ClsParts {
  readonly adapter: { readonly connectionToken?: any; readonly optionsFactory: any };
  /** The value of the provider `connectionToken`. */
  readonly connection?: object;
  /** The options of a transaction with this isolation level. */
  readonly isolated: (isolation: Isolation) => object;
  /** Runs statements in a transaction, or outside one, and returns their rows. */
  readonly runs: (tx: any) => Runs;
  readonly close: () => Promise<unknown>;
}
/* eslint-enable @typescript-eslint/no-explicit-any */

export type ClsOrm = OrmUnderTest<OpenedOrm & Propagating>;

export function clsOrm(name: string, parts: (url: string) => ClsParts | Promise<ClsParts>): ClsOrm {
  return {
    name,
    async open(url) {
      const { adapter, connection, isolated, runs, close } = await parts(url);
      const app = await startWith(adapter, connection);
      const host = app.get<TransactionHost>(TransactionHost);
      return {
        run: (propagation, work) => host.withTransaction(propagation, work),
        tx: () => runs(host.tx),
        transaction: (body, isolation) =>
          host.withTransaction((isolation === undefined ? {} : isolated(isolation)) as never, () =>
            body(runs(host.tx)),
          ),
        close: async () => {
          await app.close();
          await close();
        },
      };
    },
  };
}

function startWith(
  adapter: ClsParts['adapter'],
  connection: object | undefined,
): Promise<INestApplicationContext> {
  const provided =
    connection === undefined
      ? []
      : [{ provide: adapter.connectionToken as string, useValue: connection }];

  @Module({ providers: provided, exports: provided })
  class DatabaseModule {}

  @Module({
    imports: [
      ClsModule.forRoot({
        plugins: [
          new ClsPluginTransactional({ imports: [DatabaseModule], adapter: adapter as never }),
        ],
      }),
    ],
  })
  class AppModule {}

  return NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
}

export const POOL_SIZE = 10;

export function openPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: POOL_SIZE });
  pool.on('error', () => {}); // errors of idle clients; those in a transaction are under test
  return pool;
}
