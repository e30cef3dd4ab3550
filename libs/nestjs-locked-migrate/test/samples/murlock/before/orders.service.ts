import { Injectable } from '@nestjs/common';
import { MurLock, SetParamNames } from 'murlock';
import { Inside } from './inside.js';
import { Logged } from './logged.js';

export interface Order {
  id: number;
  shop: { id: string };
}

const SLOW_MS = 15 * 60_000;

@Injectable()
export class OrdersService {
  readonly inside = new Inside();

  // One parameter, and a property of one.
  @MurLock(5000, 'orderId')
  async take(orderId: string): Promise<number> {
    return this.inside.work();
  }

  @MurLock(5000, 'order.id', 'customer')
  async book(order: Order, customer: string): Promise<number> {
    return this.inside.work();
  }

  @MurLock(5_000, 'order.shop.id')
  async close(order: Order): Promise<number> {
    return this.inside.work();
  }

  // By position, and in an object that is taken apart.
  @MurLock(5000, '0.userId', '1.transactionId')
  async pay(
    { userId }: { userId: string },
    { transactionId }: { transactionId: string },
  ): Promise<number> {
    return this.inside.work();
  }

  @MurLock(5000, 'userId')
  async refund({ userId, amount = 0 }: { userId: string; amount?: number }): Promise<number> {
    return amount + (await this.inside.work());
  }

  // Pauses of its own, names below another decorator, a constant.
  @MurLock(5000, 1500, 'id')
  async ship(id: string): Promise<number> {
    return this.inside.work();
  }

  @MurLock(5000, (retries) => retries * 50, 'sku')
  async count(sku: string): Promise<number> {
    return this.inside.work();
  }

  @MurLock(5000, 'data.id', 'context')
  @SetParamNames({ data: 0, context: 2 })
  @Logged()
  async process(data: { id: string }, options: string[], context: string): Promise<number> {
    return options.length + context.length + (await this.inside.work());
  }

  @MurLock(SLOW_MS)
  async report(): Promise<number> {
    return this.inside.work();
  }
}
