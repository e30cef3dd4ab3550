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

  // Once in a while: what is locked here is never released.
  async report(): Promise<string> {
    try {
      await this.locks.acquire('job:report', { waitMs: 0, leaseMs: 60_000, renew: false });
    } catch {
      return 'not now';
    }
    const hourly = await this.locks.acquire('job:hourly', { waitMs: 5000, leaseMs: HOUR_MS, renew: false, maxHoldMs: HOUR_MS }).catch(() => null);
    if (!hourly) return 'reported';
    let daily;
    daily = await this.locks.acquire('job:daily', { waitMs: 5000, leaseMs: 24 * HOUR_MS, renew: false, maxHoldMs: 24 * HOUR_MS }).catch(() => undefined);
    if (daily === undefined) return 'reported';
    void this.locks.acquire('job:last', { waitMs: 5000, leaseMs: 1000, renew: false });
    if (await this.locks.acquire('job:first', { waitMs: 5000, leaseMs: 2000, renew: false }).catch(() => null)) return 'first';
    return 'all';
  }

  // These are released: by the caller, by a helper, in the end.
  async begin(): Promise<{ release(): Promise<unknown> }> {
    const passed = await this.locks.acquire('job:passed', { waitMs: 5000 });
    await this.end(passed);
    const stored = await this.locks.acquire('job:stored', { waitMs: 5000 });
    const ends = { stored };
    await ends.stored.release();
    const tested = await this.locks.acquire('job:tested', { waitMs: 5000 }).catch(() => null);
    if (tested === null) throw new Error('not now');
    await tested.release();
    await this.locks.acquire('job:chained', { waitMs: 5000 }).then((lock) => lock.release());
    return this.locks.acquire('job:returned', { waitMs: 5000 });
  }

  async end(lock: { release(): Promise<unknown> }): Promise<void> {
    await lock.release();
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
