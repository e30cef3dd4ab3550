import { Body, Controller, Injectable, Param, Post } from '@nestjs/common';
import { IsInt, Max, Min } from 'class-validator';
import { Locked } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { StockParams } from '../stock/stock.dto.js';

const HOUR = 3_600;

export class StocktakeBody {
  @IsInt()
  @Min(0)
  @Max(HOUR)
  readonly seconds!: number;
}

@Injectable()
export class StocktakeService {
  /** Counts the pieces of a product, while nobody may sell any. It is slow, so that there is a holder to be found. */
  @Locked('stock:<id>')
  async count(id: string, seconds: number): Promise<{ counted: string }> {
    await sleep(seconds * 1_000, undefined, { ref: false });
    return { counted: id };
  }
}

@Controller('stocktake/:id')
export class StocktakeController {
  constructor(private readonly stocktake: StocktakeService) {}

  @Post()
  count(
    @Param() { id }: StockParams,
    @Body() { seconds }: StocktakeBody,
  ): Promise<{ counted: string }> {
    return this.stocktake.count(id, seconds);
  }
}
