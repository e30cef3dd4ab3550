import { Module } from '@nestjs/common';
import { ClsPluginTransactional } from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule } from 'nestjs-cls';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { DataSource } from 'typeorm';
import { DatabaseModule } from './database.module.js';

/** `@Transactional`, with transactions that the locks know about. `lockAwareAdapter` is all it takes. */
@Module({
  imports: [
    ClsModule.forRoot({
      plugins: [
        new ClsPluginTransactional({
          imports: [DatabaseModule],
          adapter: lockAwareAdapter(
            new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource }),
          ),
        }),
      ],
    }),
  ],
})
export class TransactionsModule {}
