import { Injectable, Logger } from '@nestjs/common';
import { Redis } from 'ioredis';
import Redlock, { ExecutionError, type Lock, ResourceLockedError } from 'redlock';
import { Inside } from './inside.js';

@Injectable()
export class PaymentsService {
  readonly inside = new Inside();
  private readonly logger = new Logger(PaymentsService.name);
  private redlock: Redlock;

  constructor(private readonly redis: Redis) {
    this.redlock = new Redlock([redis], { retryCount: 50, retryDelay: 100, retryJitter: 50 });
    this.redlock.on('error', (error) => {
      if (error instanceof ResourceLockedError) return;
      this.logger.error(error);
    });
  }

  async pay(account: string): Promise<number> {
    return await this.redlock.using([`account:${account}`], 5000, async (signal) => {
      await this.redis.ping();
      if (signal.aborted) {
        throw signal.error;
      }
      return this.inside.work();
    });
  }

  async transfer(from: string, to: string): Promise<boolean> {
    let lock: Lock | undefined;
    try {
      lock = await this.redlock.acquire([`account:${from}`, `account:${to}`], 5000);
      await this.inside.work();
      lock = await lock.extend(5000);
      await this.inside.work();
      return lock.resources.length === 2;
    } catch (error) {
      if (error instanceof ExecutionError) return false;
      throw error;
    } finally {
      await lock?.release();
    }
  }

  withAccount<T>(account: string, ttl: number, work: () => Promise<T>): Promise<T> {
    return this.redlock.using(
      [`account:${account}`],
      ttl,
      work,
    );
  }
}
