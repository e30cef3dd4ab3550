import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { Settings } from '../settings.js';
import { Purchase } from './purchase.entity.js';
import { Stock } from './stock.entity.js';

/**
 * Reads a stock, changes it and saves it. The result is right as long as nobody else changes the same stock in between.
 * A transaction alone does not prevent that; the lock of `StockService` does.
 */
@Injectable()
export class StockLedger {
  constructor(private readonly settings: Settings) {}

  async subtract(manager: EntityManager, id: string, quantity: number): Promise<Stock> {
    const stock = await manager.findOneBy(Stock, { id });
    if (stock === null) throw new NotFoundException(`There is no stock '${id}'`);
    if (stock.quantity < quantity) {
      throw new ConflictException(
        `Not enough of '${id}': ${quantity} asked for, ${stock.quantity} left`,
      );
    }
    if (this.settings.pauseMs > 0) await sleep(this.settings.pauseMs);
    stock.quantity -= quantity;
    await manager.insert(Purchase, { stockId: id, quantity });
    await manager.update(Stock, { id }, { quantity: stock.quantity });
    return stock;
  }

  async set(manager: EntityManager, id: string, quantity: number, name?: string): Promise<Stock> {
    const known = await manager.findOneBy(Stock, { id });
    const stock = known ?? manager.create(Stock, { id, name: id });
    stock.quantity = quantity;
    if (name !== undefined) stock.name = name;
    return manager.save(stock);
  }
}
