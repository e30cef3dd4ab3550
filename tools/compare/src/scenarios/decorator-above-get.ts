import { Controller, Get, Param } from '@nestjs/common';
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

export const scenario: Scenario<Decorated> = {
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
