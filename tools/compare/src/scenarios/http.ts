import { ConflictException, Controller, Get, Param } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import type { Scenario } from '../scenario.js';
import {
  type Decorated,
  murlock,
  nestjsRedis,
  nestRedlock,
  ours,
  universal,
} from '../stage/decorated.js';

const note = 'Below `@Get`, the route works.';

export const decoratorAboveGet: Scenario<Decorated> = {
  title: "The lock's decorator above `@Get`",
  workload: 'An HTTP request for a route whose method has the lock’s decorator above `@Get()`.',
  async play({ lock, serve }) {
    @Controller('stock')
    class StockController {
      @lock
      @Get(':id')
      async get(@Param('id') id: string): Promise<string> {
        return `ten of ${id}`;
      }
    }
    const { status } = await fetch(`${await serve(StockController)}/stock/42`);
    return {
      holds: status === 200,
      figure: String(status),
      words: status === 200 ? 'The route works.' : 'The route is gone, without a message.',
    };
  },
  peers: [
    nestjsRedis(({ Redlock }) => Redlock('stock', 5000), { note }),
    nestRedlock(({ Redlock }) => Redlock('stock'), { note }),
    universal(({ Redlock }) => Redlock({ key: 'stock' }), { note }),
    murlock(({ MurLock }) => MurLock(5000, 'id')),
  ],
  ours: ours(Locked('stock:<id>')),
};

export const httpStatus: Scenario<Decorated> = {
  title: 'A handler that answers 409 under the lock',
  workload: 'A route whose method throws a `ConflictException` while it holds the lock.',
  async play({ lock, serve }) {
    @Controller('stock')
    class StockController {
      @Get(':id')
      @lock
      async get(@Param('id') id: string): Promise<string> {
        throw new ConflictException(`none left of ${id}`);
      }
    }
    const { status } = await fetch(`${await serve(StockController)}/stock/42`);
    return {
      holds: status === 409,
      figure: String(status),
      words: status === 409 ? 'The client got the right answer.' : 'The client got a server error.',
    };
  },
  peers: [
    universal(({ Redlock }) => Redlock({ key: 'stock' }), {
      note: 'The decorator is below `@Get`, where the route works.',
    }),
  ],
  ours: ours(Locked('stock:<id>')),
};
