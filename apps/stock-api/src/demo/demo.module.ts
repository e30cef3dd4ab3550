import { Module } from '@nestjs/common';
import { StockModule } from '../stock/stock.module.js';
import { UnlockedStockController } from './unlocked-stock.controller.js';

@Module({ imports: [StockModule], controllers: [UnlockedStockController] })
export class DemoModule {}
