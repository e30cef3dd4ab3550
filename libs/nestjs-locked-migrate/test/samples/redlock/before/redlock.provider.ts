import { Redlock } from '@sesamecare-oss/redlock';
import { Redis } from 'ioredis';

export const redlockProvider = {
  provide: 'REDLOCK',
  useFactory: (redis: Redis) =>
    new Redlock([redis], { retryCount: 50, retryDelay: 100, retryJitter: 50 }),
  inject: [Redis],
};
