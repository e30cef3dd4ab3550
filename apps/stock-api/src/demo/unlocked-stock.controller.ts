import { Body, Controller, Param, Post } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { StockParams, TakeBody } from '../stock/stock.dto.js';
import type { Stock } from '../stock/stock.entity.js';
import { StockLedger } from '../stock/stock-ledger.js';

/** The same sale as `POST /stock/:id/take`, but without the lock. It shows what the lock is for. */
@Controller('unlocked/stock/:id')
export class UnlockedStockController {
  constructor(
    private readonly dataSource: DataSource,
    private readonly ledger: StockLedger,
  ) {}

  @Post('take')
  take(@Param() { id }: StockParams, @Body() { quantity }: TakeBody): Promise<Stock> {
    return this.dataSource.transaction((manager) => this.ledger.subtract(manager, id, quantity));
  }
}
