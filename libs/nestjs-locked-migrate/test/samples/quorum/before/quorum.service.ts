import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';
import Redlock from 'redlock';

@Injectable()
export class QuorumService {
  private readonly redlock = new Redlock([new Redis(6379), new Redis(6380), new Redis(6381)]);

  async take(id: string): Promise<void> {
    await this.redlock.using([`stock:${id}`], 5000, async () => {});
  }
}
