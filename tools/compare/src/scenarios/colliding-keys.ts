import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import type { Scenario } from '../scenario.js';
import { type Decorated, murlock, ours } from '../stage/decorated.js';
import { connect } from '../stage/redis.js';

export const scenario: Scenario<Decorated> = {
  title: 'Different values, the same key',
  workload: 'Two unrelated calls, for ("a:b", "c") and for ("a", "b:c").',
  async play({ lock, start }, server) {
    const redis = await connect(server);
    const held: string[] = [];
    @Injectable()
    class StockService {
      @lock
      async take(shop: string, sku: string): Promise<void> {
        if (shop !== sku) held.push(...(await redis.keys('*[bc]*')));
      }
    }
    const stocks = await start(StockService);
    await stocks.take('a:b', 'c');
    await stocks.take('a', 'b:c');
    const keys = held.filter((key) => /b.*c\}?$/.test(key) && !key.includes(':process:'));
    const distinct = [...new Set(keys)];
    return {
      holds: distinct.length === 2,
      figure: distinct.length === 2 ? 'two locks' : 'one lock',
      words: `Keys: ${distinct.map((key) => `"${key}"`).join(' and ')}.`,
    };
  },
  peers: [murlock(({ MurLock }) => MurLock(5000, 'shop', 'sku'))],
  ours: ours(Locked('stock:<shop>:<sku>')),
};
