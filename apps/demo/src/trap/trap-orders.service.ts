import { Injectable } from '@nestjs/common';
import { Transactional } from '@nestjs-cls/transactional';
import { Locked } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TrapOrder } from './trap-order.js';
import { TrapStockService } from './trap-stock.service.js';

/** What an order does besides taking from the stock, while its transaction is open. */
const REST_OF_THE_ORDER_MS = 10;

@Injectable()
export class TrapOrdersService {
  constructor(private readonly stock: TrapStockService) {}

  /** The trap: a transaction, and inside it the wait for a lock. It looks harmless wherever it is called. */
  @Transactional()
  async placeInWrongNesting(order: TrapOrder): Promise<void> {
    await this.#book(order);
  }

  @Locked('stock:<order.productId>')
  @Transactional()
  async placeInRightNesting(order: TrapOrder): Promise<void> {
    await this.#book(order);
  }

  async #book(order: TrapOrder): Promise<void> {
    order.runs++;
    await this.stock.take(order.productId);
    await sleep(REST_OF_THE_ORDER_MS);
  }
}
