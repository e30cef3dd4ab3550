import { Body, Controller, Get, Param, Post, Put } from '@nestjs/common';
import { RestockBody, StockParams, TakeBody } from './stock.dto.js';
import type { Stock } from './stock.entity.js';
import { StockService } from './stock.service.js';

@Controller('stock/:id')
export class StockController {
  constructor(private readonly stocks: StockService) {}

  @Get()
  find(@Param() { id }: StockParams): Promise<Stock> {
    return this.stocks.find(id);
  }

  @Put()
  restock(@Param() { id }: StockParams, @Body() body: RestockBody): Promise<Stock> {
    return this.stocks.restock(id, body.quantity, body.name);
  }

  @Post('take')
  take(@Param() { id }: StockParams, @Body() body: TakeBody): Promise<Stock> {
    return this.stocks.take(id, body.quantity);
  }
}
