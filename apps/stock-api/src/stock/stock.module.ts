import { Module } from '@nestjs/common';
import { StockController } from './stock.controller.js';
import { StockService } from './stock.service.js';
import { StockLedger } from './stock-ledger.js';

@Module({
  controllers: [StockController],
  providers: [StockService, StockLedger],
  exports: [StockService, StockLedger],
})
export class StockModule {}
