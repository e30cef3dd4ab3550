var __decorate = (this && this.__decorate) || function (decorators, target, key, desc) {
    var c = arguments.length, r = c < 3 ? target : desc === null ? desc = Object.getOwnPropertyDescriptor(target, key) : desc, d;
    if (typeof Reflect === "object" && typeof Reflect.decorate === "function") r = Reflect.decorate(decorators, target, key, desc);
    else for (var i = decorators.length - 1; i >= 0; i--) if (d = decorators[i]) r = (c < 3 ? d(r) : c > 3 ? d(target, key, r) : d(target, key)) || r;
    return c > 3 && r && Object.defineProperty(target, key, r), r;
};
var __metadata = (this && this.__metadata) || function (k, v) {
    if (typeof Reflect === "object" && typeof Reflect.metadata === "function") return Reflect.metadata(k, v);
};
var __param = (this && this.__param) || function (paramIndex, decorator) {
    return function (target, key) { decorator(target, key, paramIndex); }
};
import { Inject, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ClsPluginTransactional, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { Locked, LockService, RedisLockModule } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { DataSource } from 'typeorm';
import { LEASE_MS } from '../scale.js';
import { monotonicMs } from '../work/events.js';
import { Purchase } from '../work/purchase.js';
import { takePieces } from '../work/shop.js';
import 'reflect-metadata';
let Ledger = class Ledger {
    host;
    constructor(host) {
        this.host = host;
    }
    async subtract(purchase) {
        await takePieces((text, values) => this.host.tx.query(text, [...values]), purchase);
    }
};
__decorate([
    Transactional(),
    __metadata("design:type", Function),
    __metadata("design:paramtypes", [Purchase]),
    __metadata("design:returntype", Promise)
], Ledger.prototype, "subtract", null);
Ledger = __decorate([
    Injectable(),
    __param(0, Inject(TransactionHost)),
    __metadata("design:paramtypes", [TransactionHost])
], Ledger);
let StockService = class StockService {
    ledger;
    locks;
    constructor(ledger, locks) {
        this.ledger = ledger;
        this.locks = locks;
    }
    async take(id, purchase) {
        this.#observe(id, purchase);
        try {
            await this.ledger.subtract(purchase);
        }
        finally {
            purchase.releases();
        }
    }
    /** The wrong order: the lock is asked for inside the transaction. */
    async takeInside(purchase) {
        await this.take(purchase.product, purchase);
    }
    /** This is only for the report. An application that can stop early would listen to the signal as well. */
    #observe(id, purchase) {
        purchase.holds();
        const lock = this.locks.current(this.locks.keyFor('stock:<id>', { id }));
        if (lock === undefined)
            throw new Error('@Locked ran a method without a lock');
        lock.signal.addEventListener('abort', () => purchase.note('told', reasonOf(lock.signal)));
        purchase.asksLock = () => ({ until: monotonicMs() + lock.remainingMs() });
    }
};
__decorate([
    Locked('stock:<id>'),
    __metadata("design:type", Function),
    __metadata("design:paramtypes", [String, Purchase]),
    __metadata("design:returntype", Promise)
], StockService.prototype, "take", null);
__decorate([
    Transactional(),
    __metadata("design:type", Function),
    __metadata("design:paramtypes", [Purchase]),
    __metadata("design:returntype", Promise)
], StockService.prototype, "takeInside", null);
StockService = __decorate([
    Injectable(),
    __param(0, Inject(Ledger)),
    __param(1, Inject(LockService)),
    __metadata("design:paramtypes", [Ledger,
        LockService])
], StockService);
/** Starts the application that makes up this stage, and calls it as its controllers would. */
export async function openShop(tools) {
    const app = await NestFactory.createApplicationContext(shopModule(tools), { logger: false });
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
function shopModule({ setup, redis }) {
    let ShopModule = class ShopModule {
    };
    ShopModule = __decorate([
        Module({
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
                            adapter: lockAwareAdapter(new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource })),
                        }),
                    ],
                }),
                RedisLockModule.forRoot({
                    connection: redis,
                    leaseMs: LEASE_MS,
                    waitMs: LEASE_MS * 4,
                    fence: {},
                    // Without this, a call with the lock inside is refused at once, with an error that says what to change.
                    insideTransaction: 'restart',
                }),
            ],
            providers: [Ledger, StockService],
        })
    ], ShopModule);
    return ShopModule;
}
function reasonOf({ reason }) {
    return reason instanceof Error && 'reason' in reason ? String(reason.reason) : String(reason);
}
//# sourceMappingURL=17-stock.service.js.map