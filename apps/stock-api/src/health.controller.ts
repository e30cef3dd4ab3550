import { Controller, Get, ServiceUnavailableException } from '@nestjs/common';
import { Redis } from 'ioredis';
import { DataSource } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';

const PATIENCE_MS = 2_000;

type Answer = 'up' | 'down';

@Controller('health')
export class HealthController {
  constructor(
    private readonly dataSource: DataSource,
    private readonly redis: Redis,
  ) {}

  @Get()
  async check(): Promise<{ database: Answer; redis: Answer }> {
    const [database, redis] = await Promise.all([
      answers(this.dataSource.query('SELECT 1')),
      answers(this.redis.ping()),
    ]);
    const health = { database, redis };
    if (database === 'down' || redis === 'down') throw new ServiceUnavailableException(health);
    return health;
  }
}

/** A client that keeps trying to reconnect answers late or never. That counts as `down` as well. */
async function answers(request: Promise<unknown>): Promise<Answer> {
  const answered = request.then<Answer, Answer>(
    () => 'up',
    () => 'down',
  );
  return Promise.race([answered, sleep<Answer>(PATIENCE_MS, 'down', { ref: false })]);
}
