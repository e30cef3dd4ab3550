import { Body, Controller, Post } from '@nestjs/common';
import { Settings } from '../settings.js';
import type { Order } from './order.entity.js';
import { OrderBody } from './orders.dto.js';
import { OrdersService } from './orders.service.js';

@Controller('orders')
export class OrdersController {
  constructor(
    private readonly orders: OrdersService,
    private readonly settings: Settings,
  ) {}

  @Post()
  place(@Body() { lines }: OrderBody): Promise<Order> {
    return this.settings.ordersNesting === 'right'
      ? this.orders.place(lines)
      : this.orders.placeInWrongNesting(lines);
  }
}
