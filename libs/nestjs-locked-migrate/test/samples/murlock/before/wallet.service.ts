import { HttpException, Injectable } from '@nestjs/common';
import { MurLockException, MurLockService } from 'murlock';
import { Inside } from './inside.js';

@Injectable()
export class WalletService {
  readonly inside = new Inside();

  constructor(private readonly murLockService: MurLockService) {}

  async pay(wallet: string): Promise<number> {
    const lockKey = `wallet:${wallet}`;
    try {
      return await this.murLockService.runWithLock(lockKey, 3000, async () => this.inside.work());
    } catch (error) {
      if (error instanceof MurLockException) throw new HttpException('Busy', 423);
      throw error;
    }
  }

  async audit(wallet: string, lockTime: number): Promise<number> {
    return this.murLockService.runWithLock(
      `audit:${wallet}`,
      lockTime,
      250,
      () => this.inside.work(),
    );
  }
}
