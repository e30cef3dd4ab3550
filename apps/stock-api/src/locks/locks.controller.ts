import { Controller, Get, Param } from '@nestjs/common';
import { type LockInfo, LockService } from 'nestjs-locked';
import { DataSource } from 'typeorm';
import { StockParams } from '../stock/stock.dto.js';

interface LockState {
  readonly key: string;
  /** Who holds it, as far as Redis knows; null if nobody does. */
  readonly lock: LockInfo | null;
  /** The highest fencing token that the database has seen; null if there was no transaction yet. */
  readonly fence: { readonly token: number } | null;
}

/** For operators. It names hosts and processes, so put it behind a guard in your own application. */
@Controller('stock/:id/lock')
export class LocksController {
  constructor(
    private readonly locks: LockService,
    private readonly dataSource: DataSource,
  ) {}

  @Get()
  async show(@Param() { id }: StockParams): Promise<LockState> {
    const key = this.locks.keyFor('stock:<id>', { id });
    const [lock, fence] = await Promise.all([this.locks.inspect(key), this.#fence(key)]);
    return { key, lock, fence };
  }

  async #fence(key: string): Promise<LockState['fence']> {
    const [row] = await this.dataSource.query<{ token: string }[]>(
      'SELECT token FROM lock_fence WHERE lock_key = $1',
      [key],
    );
    return row === undefined ? null : { token: Number(row.token) };
  }
}
