import { Inject, Injectable } from '@nestjs/common';
import { Redlock, type RedlockAbortSignal } from '@sesamecare-oss/redlock';

const HOUR_MS = 60 * 60_000;

@Injectable()
export class JobsService {
  constructor(@Inject('REDLOCK') private readonly redlock: Redlock) {}

  // One try.
  async cleanUp(): Promise<void> {
    await this.redlock.using(['job:clean-up'], 60_000, { retryCount: 0 }, async () => {
      await Promise.resolve();
    });
  }

  // Once in a while: what is locked here is never released.
  async report(): Promise<string> {
    try {
      await this.redlock.acquire(['job:report'], 60_000, { retryCount: 0 });
    } catch {
      return 'not now';
    }
    const hourly = await this.redlock.acquire(['job:hourly'], HOUR_MS).catch(() => null);
    if (!hourly) return 'reported';
    let daily;
    daily = await this.redlock.acquire(['job:daily'], 24 * HOUR_MS).catch(() => undefined);
    if (daily === undefined) return 'reported';
    void this.redlock.acquire(['job:last'], 1000);
    if (await this.redlock.acquire(['job:first'], 2000).catch(() => null)) return 'first';
    return 'all';
  }

  // These are released: by the caller, by a helper, in the end.
  async begin(): Promise<{ release(): Promise<unknown> }> {
    const passed = await this.redlock.acquire(['job:passed'], 5000);
    await this.end(passed);
    const stored = await this.redlock.acquire(['job:stored'], 5000);
    const ends = { stored };
    await ends.stored.release();
    const tested = await this.redlock.acquire(['job:tested'], 5000).catch(() => null);
    if (tested === null) throw new Error('not now');
    await tested.release();
    await this.redlock.acquire(['job:chained'], 5000).then((lock) => lock.release());
    return this.redlock.acquire(['job:returned'], 5000);
  }

  async end(lock: { release(): Promise<unknown> }): Promise<void> {
    await lock.release();
  }

  // The signal is passed on, under another name, without parentheses.
  async index(pages: string[]): Promise<void> {
    await this.redlock.using(pages.map((page) => 'page:' + page), HOUR_MS, async abort => {
      await this.load(abort, { signal: abort });
    });
  }

  async stopped(id: string): Promise<string> {
    return this.redlock.using([id], 5000, async (signal: RedlockAbortSignal) => {
      const lock = 'a name that is taken';
      return signal.aborted ? String(signal.error) : lock;
    });
  }

  each(id: string): Promise<void> {
    return this.redlock.using([`each:${id}`], 5000, this.load);
  }

  load = async (signal: AbortSignal, options?: { signal: AbortSignal }): Promise<void> => {
    (options?.signal ?? signal).throwIfAborted();
  };
}
