import { Controller, Inject, Param, Post, UseFilters } from '@nestjs/common';
import { LockExceptionFilter } from 'nestjs-locked';
import { StockService } from './stock.service.js';

@Controller('stock')
@UseFilters(LockExceptionFilter)
export class StockController {
  constructor(@Inject(StockService) private readonly stock: StockService) {}

  @Post(':id/take')
  async take(@Param('id') id: string): Promise<{ left: number }> {
    return { left: await this.stock.take(id, 1) };
  }
}
