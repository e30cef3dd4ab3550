import { Module } from '@nestjs/common';
import { LockDashboardModule } from 'nestjs-locked/dashboard';
import { Settings } from '../settings.js';
import { LocksController } from './locks.controller.js';
import { operatorsWith } from './operators.js';

@Module({
  imports: [
    LockDashboardModule.registerAsync({
      inject: [Settings],
      useFactory: ({ locksPassword }: Settings) => ({
        path: '/locks',
        authorize: operatorsWith(locksPassword),
        challenge: 'Basic realm="locks"',
      }),
    }),
  ],
  controllers: [LocksController],
})
export class LocksModule {}
