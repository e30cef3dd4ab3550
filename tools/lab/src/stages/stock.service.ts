import { type DynamicModule, Inject, Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ClsPluginTransactional, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { Locked, LockService, RedisLockModule, type RedisLockModuleOptions } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { DataSource } from 'typeorm';
import { LEASE_MS } from '../scale.js';
import { Purchase } from '../work/purchase.js';
import { takePieces } from '../work/shop.js';
import type { OpenStage, StageTools } from './stage.js';

import 'reflect-metadata';

@Injectable()
class StockService {
  constructor(
    @Inject(TransactionHost) private readonly host: TransactionHost<TransactionalAdapterTypeOrm>,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  @Locked('stock:<id>')
  async take(id: string, purchase: Purchase): Promise<void> {
    this.#observe(id, purchase);
    try {
      await this.subtract(purchase);
    } finally {
      purchase.releases();
    }
  }

  @Transactional()
  async subtract(purchase: Purchase): Promise<void> {
    await takePieces((text, values) => this.host.tx.query(text, [...values]), purchase);
  }

  /** The wrong order: the lock is asked for inside the transaction. */
  @Transactional()
  async takeInside(purchase: Purchase): Promise<void> {
    await this.take(purchase.product, purchase);
  }

  /** This is only for the judge. An application that can stop early would listen to the signal as well. */
  #observe(id: string, purchase: Purchase): void {
    const lock = this.locks.current(this.locks.keyFor('stock:<id>', { id }));
    if (lock === undefined) throw new Error('@Locked ran a method without a lock');
    lock.signal.addEventListener('abort', () => purchase.note('told', reasonOf(lock.signal)));
    purchase.remainingMs = () => lock.remainingMs();
    purchase.holds(lock.fencingToken);
    purchase.believes = () => lock.isHeld && !lock.signal.aborted;
  }
}

/** Starts the application that makes up this stage, and calls it as its controllers would. */
export async function openShop(tools: StageTools): Promise<OpenStage> {
  const nodes = await tools.nodes();
  const connection = nodes.length === 0 ? tools.redis : { quorum: nodes };
  const module = shopModule(tools, connection);
  const app = await NestFactory.createApplicationContext(module, { logger: false });
  const stocks = app.get(StockService);
  return {
    async buy(purchase) {
      purchase.waits();
      await stocks.take(purchase.product, purchase);
    },
    async buyInsideTransaction(purchase) {
      purchase.waits();
      await stocks.takeInside(purchase);
    },
    close: () => app.close(),
  };
}

function shopModule(
  { setup }: StageTools,
  connection: RedisLockModuleOptions['connection'],
): DynamicModule {
  return {
    module: class ShopModule {},
    imports: [
      TypeOrmModule.forRoot({
        type: 'postgres',
        url: setup.databaseUrl,
        poolSize: 5,
        applicationName: setup.product,
        ...(setup.transactionLimitMs > 0 && {
          extra: { options: `-c transaction_timeout=${setup.transactionLimitMs}` },
        }),
      }),
      ClsModule.forRoot({
        plugins: [
          new ClsPluginTransactional({
            imports: [TypeOrmModule],
            adapter: lockAwareAdapter(
              new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource }),
            ),
          }),
        ],
      }),
      RedisLockModule.forRoot({
        connection,
        leaseMs: LEASE_MS,
        waitMs: LEASE_MS * 4,
        fence: {},
        // Without this, a call with the lock inside is refused at once, with an error that says what to change.
        insideTransaction: 'restart',
      }),
    ],
    providers: [StockService],
  };
}

function reasonOf({ reason }: AbortSignal): string {
  return reason instanceof Error && 'reason' in reason ? String(reason.reason) : String(reason);
}
