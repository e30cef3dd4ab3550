import { Module } from '@nestjs/common';
import { MurLockModule, type MurLockModuleOptions, MurLockService } from 'murlock';

export function optionsOf(name: string): MurLockModuleOptions {
  return { redisOptions: { name }, wait: 100, maxAttempts: 3, lockKeyPrefix: 'custom' };
}

@Module({ imports: [MurLockModule.forRoot(optionsOf('other'))] })
export class OtherModule {}

@Module({
  imports: [
    MurLockModule.forRoot({ redisOptions: {}, wait: 100, maxAttempts: 3, blocking: true }),
  ],
})
export class BlockingModule {}

export const mock = { provide: MurLockService, useValue: {} };
