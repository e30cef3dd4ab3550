import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';

const OUTBOX = 'outbox';

/** The mail that has yet to be sent, in its order: a list in Redis. */
@Injectable()
export class Outbox {
  constructor(private readonly redis: Redis) {}

  async first(): Promise<string | undefined> {
    return (await this.redis.lindex(OUTBOX, 0)) ?? undefined;
  }

  async remove(mail: string): Promise<void> {
    await this.redis.lrem(OUTBOX, 1, mail);
  }
}

/** As another application does it. */
export async function writeMail(redis: Redis, mail: string): Promise<void> {
  await redis.rpush(OUTBOX, mail);
}
