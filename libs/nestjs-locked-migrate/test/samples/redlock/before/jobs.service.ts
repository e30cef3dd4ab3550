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
