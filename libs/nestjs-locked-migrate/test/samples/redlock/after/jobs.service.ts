import { Inject, Injectable } from '@nestjs/common';
import { LockService } from 'nestjs-locked';

const HOUR_MS = 60 * 60_000;

@Injectable()
export class JobsService {
  constructor(private readonly locks: LockService) {}

  // One try.
  async cleanUp(): Promise<void> {
    await this.locks.withLock('job:clean-up', { waitMs: 0 }, async () => {
      await Promise.resolve();
    });
  }

  // The signal is passed on, under another name, without parentheses.
  async index(pages: string[]): Promise<void> {
    await this.locks.withLock(pages.map((page) => 'page:' + page), { waitMs: 5000, leaseMs: HOUR_MS, maxHoldMs: HOUR_MS }, async lock => {
      await this.load(lock.signal, { signal: lock.signal });
    });
  }

  async stopped(id: string): Promise<string> {
    return this.locks.withLock(id, { waitMs: 5000 }, async (held) => {
      const lock = 'a name that is taken';
      return held.signal.aborted ? String(held.signal.reason) : lock;
    });
  }

  each(id: string): Promise<void> {
    return this.locks.withLock(`each:${id}`, { waitMs: 5000 }, (lock) => this.load(lock.signal));
  }

  load = async (signal: AbortSignal, options?: { signal: AbortSignal }): Promise<void> => {
    (options?.signal ?? signal).throwIfAborted();
  };
}
