/** The log of events that were not handled. A file of its own, because the pause between two lines is the process's. */
import { expect, it } from '@jest/globals';
import { Controller, UseFilters } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Payload,
  Transport,
} from '@nestjs/microservices';
import { Locked, LockExceptionFilter, LockService } from 'nestjs-locked';
import { LockTestingModule } from 'nestjs-locked/testing';
import { lastValueFrom } from 'rxjs';
import type { Server } from 'node:net';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { afterTest } from '../support/after-test.js';
import { whileBusy } from '../support/busy-lock.js';
import { eventually } from '../support/eventually.js';
import { RecordingLogger } from '../support/recording-logger.js';

@Controller()
@UseFilters(LockExceptionFilter)
class StockController {
  @MessagePattern({ of: 'stock', cmd: 'take' })
  @Locked('stock:<id>', { waitMs: 0 })
  async take(@Payload() id: string): Promise<string> {
    return id;
  }

  @MessagePattern(7)
  @Locked('stock:<id>', { waitMs: 0 })
  async takeByNumber(@Payload() id: string): Promise<string> {
    return id;
  }

  @EventPattern({ event: 'taken' })
  @Locked('stock:<id>', { waitMs: 0 })
  async onTaken(@Payload() id: string): Promise<string> {
    return id;
  }
}

it('an event that was not handled is logged once a minute, a message that was answered is not', async () => {
  const log = new RecordingLogger();
  const app = await NestFactory.createMicroservice(
    {
      module: class Root {},
      imports: [LockTestingModule.forRoot()],
      controllers: [StockController],
    },
    {
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port: 0 },
      logger: log,
    },
  );
  afterTest(() => app.close());
  await app.listen();
  const { port } = app.unwrap<Server>().address() as { port: number };
  const client = ClientProxyFactory.create({
    transport: Transport.TCP,
    options: { host: '127.0.0.1', port },
  });
  afterTest(() => client.close());

  const take = { cmd: 'take', of: 'stock' }; // in another order than that of the handler
  await whileBusy(app.get(LockService), 'stock:42', async () => {
    for (const pattern of [take, 7]) {
      await expect(lastValueFrom(client.send(pattern, '42'))).rejects.toMatchObject({
        code: 'LOCK_NOT_ACQUIRED',
      });
    }
    expect(log.lines(LOG_CONTEXT)).toEqual([]);
    for (let event = 0; event < 5; event++) client.emit({ event: 'taken' }, '42');
    await eventually(() => expect(log.lines(LOG_CONTEXT)).not.toEqual([]));
    // Everything sent before this message has been handled when it is answered.
    await expect(lastValueFrom(client.send(take, '42'))).rejects.toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
    });
  });
  expect(log.lines(LOG_CONTEXT)).toEqual([
    expect.stringMatching(
      /^warn Event '\{"event":"taken"\}' was not handled, and its sender is not told: Lock 'stock:42' was not acquired .*; if it must not be missed, raise waitMs, set onBusy, or send a message instead$/,
    ),
  ]);
});
