import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
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
  @Locked('OrdersService:take:<orderId>')
  async take(orderId: string): Promise<number> {
    return this.inside.work();
  }

  @Locked('OrdersService:book:<order.id>:<customer>')
  async book(order: Order, customer: string): Promise<number> {
    return this.inside.work();
  }

  @Locked('OrdersService:close:<order.shop.id>')
  async close(order: Order): Promise<number> {
    return this.inside.work();
  }

  // By position, and in an object that is taken apart.
  @Locked('OrdersService:pay:<0.userId>:<1.transactionId>')
  async pay(
    { userId }: { userId: string },
    { transactionId }: { transactionId: string },
  ): Promise<number> {
    return this.inside.work();
  }

  @Locked('OrdersService:refund:<0.userId>')
  async refund({ userId, amount = 0 }: { userId: string; amount?: number }): Promise<number> {
    return amount + (await this.inside.work());
  }

  // Pauses of its own, names below another decorator, a constant.
  @Locked('OrdersService:ship:<id>', { waitMs: 4500 })
  async ship(id: string): Promise<number> {
    return this.inside.work();
  }

  @Locked('OrdersService:count:<sku>')
  async count(sku: string): Promise<number> {
    return this.inside.work();
  }

  @Locked('OrdersService:process:<data.id>:<context>')
  @Logged()
  async process(data: { id: string }, options: string[], context: string): Promise<number> {
    return options.length + context.length + (await this.inside.work());
  }

  @Locked('OrdersService:report', { leaseMs: SLOW_MS, maxHoldMs: SLOW_MS })
  async report(): Promise<number> {
    return this.inside.work();
  }
}
