import { Module } from '@nestjs/common';
import { MurLockModule, type MurLockModuleOptions, MurLockService } from 'murlock';
import { RedisLockModule } from 'nestjs-locked';

export function optionsOf(name: string): MurLockModuleOptions {
  return { redisOptions: { name }, wait: 100, maxAttempts: 3, lockKeyPrefix: 'custom' };
}

@Module({ imports: [MurLockModule.forRoot(optionsOf('other'))] })
export class OtherModule {}

@Module({
  imports: [
    RedisLockModule.forRoot({ connection: 'redis://localhost:6379', waitMs: Infinity }),
  ],
})
export class BlockingModule {}

export const mock = { provide: MurLockService, useValue: {} };
