import { Module } from '@nestjs/common';
import { StockModule } from '../stock/stock.module.js';
import { StocktakeController, StocktakeService } from './stocktake.controller.js';
import { UnlockedStockController } from './unlocked-stock.controller.js';

@Module({
  imports: [StockModule],
  controllers: [UnlockedStockController, StocktakeController],
  providers: [StocktakeService],
})
export class DemoModule {}
