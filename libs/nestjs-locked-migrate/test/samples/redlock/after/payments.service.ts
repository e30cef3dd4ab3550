import { Injectable, Logger } from '@nestjs/common';
import { Redis } from 'ioredis';
import { type Lock, LockNotAcquiredError, LockService } from 'nestjs-locked';
import { Inside } from './inside.js';

@Injectable()
export class PaymentsService {
  readonly inside = new Inside();
  private readonly logger = new Logger(PaymentsService.name);

  constructor(private readonly redis: Redis, private readonly locks: LockService) {
  }

  async pay(account: string): Promise<number> {
    return await this.locks.withLock(`account:${account}`, { waitMs: 5000 }, async (lock) => {
      await this.redis.ping();
      lock.assertHeld();
      return this.inside.work();
    });
  }

  async transfer(from: string, to: string): Promise<boolean> {
    let lock: Lock | undefined;
    try {
      lock = await this.locks.acquire([`account:${from}`, `account:${to}`], { waitMs: 5000 });
      await this.inside.work();
      await lock.ensureRemaining(5000);
      await this.inside.work();
      return lock.keys.length === 2;
    } catch (error) {
      if (error instanceof LockNotAcquiredError) return false;
      throw error;
    } finally {
      await lock?.release();
    }
  }

  withAccount<T>(account: string, ttl: number, work: () => Promise<T>): Promise<T> {
    return this.locks.withLock(
      `account:${account}`,
      { waitMs: 5000, leaseMs: ttl },
      work,
    );
  }
}
