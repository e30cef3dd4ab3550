import { ConflictException, Controller, Get, Param } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { played, type PlayedSide, type Scenario, type Side } from '../scenario.js';
import { type Decorated, ours } from '../stage/decorated.js';
import {
  nestjsRedis,
  nestPeers,
  nestRedlock,
  simpleRedisLock,
  universal,
} from '../stage/nest-peers.js';

interface Tool extends Decorated {
  readonly isBelow?: boolean;
}

function below(side: Side<Decorated>): PlayedSide<Tool> {
  const open: Side<Tool>['open'] = async (server) => ({
    ...(await side.open(server)),
    isBelow: true,
  });
  return played('✓ 200', { ...side, open }, 'below `@Get`');
}

export const decoratorAboveGet: Scenario<Tool> = {
  title: "The lock's decorator above `@Get`",
  repeats: 1,
  workload: 'An HTTP request for a route whose method has the lock’s decorator above `@Get()`.',
  async play({ lock, serve, isBelow = false }) {
    const [outer, inner] = isBelow ? [Get(':id'), lock] : [lock, Get(':id')];
    @Controller('stock')
    class StockController {
      @outer
      @inner
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
  sides: [
    ...nestPeers({
      nestjsRedis: '✗ 404',
      nestRedlock: '✗ 404',
      universal: '✗ 404',
      simpleRedisLock: '✗ 404',
      murlock: '✓ 200',
    }),
    below(nestjsRedis(nestjsRedis.ofId)),
    below(nestRedlock(nestRedlock.ofId)),
    below(universal(universal.ofId)),
    below(simpleRedisLock(simpleRedisLock.ofId)),
    played('✓ 200', ours(Locked('stock:<id>'))),
  ],
};

export const httpStatus: Scenario<Decorated> = {
  title: 'A handler that answers 409 under the lock',
  repeats: 1,
  workload:
    'A route whose method throws a `ConflictException` while it holds the lock. `@Get` is above the lock’s decorator.',
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
  sides: [
    ...nestPeers({
      universal: '✗ 500',
      murlock: '✓ 409',
      nestjsRedis: '✓ 409',
      nestRedlock: '✓ 409',
      simpleRedisLock: '✓ 409',
    }),
    played('✓ 409', ours(Locked('stock:<id>'))),
  ],
};
