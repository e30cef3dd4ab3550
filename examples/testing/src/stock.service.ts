import { ConflictException, Inject, Injectable } from '@nestjs/common';
import { Locked, LockService } from 'nestjs-locked';
import { from, type Observable } from 'rxjs';
import { Warehouse } from './warehouse.js';

@Injectable()
export class StockService {
  constructor(
    @Inject(Warehouse) private readonly warehouse: Warehouse,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  @Locked('stock:<id>')
  async take(id: string, quantity: number): Promise<number> {
    const left = (await this.warehouse.read(id)) - quantity;
    if (left < 0) throw new ConflictException('Not enough left');
    this.locks.assertHeld(); // throws if the lock was lost meanwhile
    await this.warehouse.write(id, left);
    return left;
  }

  /** No type is emitted here for @Locked to read, so it is told that the result is no Promise. */
  @Locked('stock:<id>', { returns: 'observable' })
  watch(id: string): Observable<number> {
    return from(this.warehouse.read(id));
  }

  /** Every replica starts it at about the same time; one of them runs it. */
  @Locked('stock:report', { waitMs: 0, onBusy: 'skip', holdAtLeastMs: 30_000 })
  async report(): Promise<string | undefined> {
    return `${await this.warehouse.read('42')} left`;
  }
}
