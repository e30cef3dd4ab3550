import { HttpException, Injectable } from '@nestjs/common';
import { LockNotAcquiredError, LockService } from 'nestjs-locked';
import { Inside } from './inside.js';

@Injectable()
export class WalletService {
  readonly inside = new Inside();

  constructor(private readonly murLockService: LockService) {}

  async pay(wallet: string): Promise<number> {
    const lockKey = `wallet:${wallet}`;
    try {
      return await this.murLockService.withLock(lockKey, async () => this.inside.work());
    } catch (error) {
      if (error instanceof LockNotAcquiredError) throw new HttpException('Busy', 423);
      throw error;
    }
  }

  async audit(wallet: string, lockTime: number): Promise<number> {
    return this.murLockService.withLock(
      `audit:${wallet}`,
      { waitMs: 750, leaseMs: lockTime },
      () => this.inside.work(),
    );
  }
}
