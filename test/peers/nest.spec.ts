/** Defects seen in lock libraries for Nest, looked for here in real applications. */
import { describe, expect, it } from '@jest/globals';
import { ConflictException, Controller, Get, Injectable, Param } from '@nestjs/common';
import { KeyParam, Locked, LockService, RedisLockModule } from 'nestjs-locked';
import { startHttp, startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

@Controller('orders')
class OrderController {
  @Locked('order:<id>')
  @Get(':id')
  async find(@Param('id') @KeyParam('id') _id: string): Promise<never> {
    throw new ConflictException('shipped already');
  }
}

@Injectable()
class StockService {
  @Locked('stock:<id>')
  async take(@KeyParam('id') id: string): Promise<string> {
    return id;
  }
}

const redis = useRedis();

function start() {
  return startNest({
    imports: [RedisLockModule.forRoot({ connection: redis.url })],
    providers: [StockService],
  });
}

describe('@Locked', () => {
  it('an HttpException of the work keeps its status and body [D148]', async () => {
    const { url } = await startHttp({
      imports: [RedisLockModule.forRoot({ connection: redis.url })],
      controllers: [OrderController],
    });
    const response = await fetch(`${url}/orders/7`);
    expect(response.status).toBe(409);
    expect(await response.json()).toMatchObject({ message: 'shipped already' });
  });

  it('a thousand calls with a thousand keys leave nothing in the process [D149]', async () => {
    const app = await start();
    const stock = app.get(StockService);
    const prefix = uniqueKey();
    for (let i = 0; i < 1_000; i += 100) {
      await Promise.all(Array.from({ length: 100 }, (_, j) => stock.take(`${prefix}:${i + j}`)));
    }
    const engine = Reflect.get(
      app.get(LockService),
      Symbol.for('nestjs-locked/LockRunner'),
    ) as unknown as { residue: object };
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });
});

describe('two applications in one process', () => {
  it('closing one does not disturb the other, whichever came last [D153]', async () => {
    for (const closed of [0, 1]) {
      const apps = [await start(), await start()] as const;
      const open = apps[1 - closed]!;
      await apps[closed]!.close();
      const id = uniqueKey();
      expect(await open.get(StockService).take(id)).toBe(id);
      await open.close();
    }
  });
});
