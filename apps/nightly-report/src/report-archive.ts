import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';

const KEPT_S = 3_600;

/** Where finished reports are kept; in your application, this is a table or a bucket. */
@Injectable()
export class ReportArchive {
  constructor(private readonly redis: Redis) {}

  async has(tick: string): Promise<boolean> {
    return (await this.redis.exists(archiveKey(tick))) === 1;
  }

  /** A list, so that a report that was written twice would be seen. */
  async add(tick: string, report: string): Promise<void> {
    await this.redis
      .multi()
      .rpush(archiveKey(tick), report)
      .expire(archiveKey(tick), KEPT_S)
      .exec();
  }
}

export function archiveKey(tick: string): string {
  return `nightly-report:archive:${tick}`;
}
