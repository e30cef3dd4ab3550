import { KeyParam, Locked, lockKey } from 'nestjs-locked';
import { TestLocks, withTestLocks } from 'nestjs-locked/testing';

import './order.js';

interface Order {
  sku: string;
}

/** Each defines a class, and calls its method; the right key has no `wrong` in it. */
const cases: Record<string, (locks: TestLocks) => Promise<unknown>> = {
  async kept(locks) {
    class Stock {
      @Locked('k:<sku>')
      async take(quantity: string, sku: string) {
        return Promise.resolve(quantity + sku);
      }
    }
    await withTestLocks(new Stock(), locks).take('wrong', 'right');
  },
  async single(locks) {
    class Stock {
      @Locked('k:<order.sku>')
      async book(order: Order) {
        return Promise.resolve(order.sku);
      }
    }
    await withTestLocks(new Stock(), locks).book({ sku: 'right' });
  },
  async oneOfTwo(locks) {
    class Stock {
      @Locked('k:<order>')
      async take(order: string, quantity: string) {
        return Promise.resolve(order + quantity);
      }
    }
    await withTestLocks(new Stock(), locks).take('right', 'wrong');
  },
  async numbered(locks) {
    class Stock {
      @Locked('k:<order2>')
      async merge(order: string, order2: string) {
        return Promise.resolve(order + order2);
      }
    }
    await withTestLocks(new Stock(), locks).merge('wrong', 'right');
  },
  async global(locks) {
    class Stock {
      @Locked('k:<process>')
      async start(process: string) {
        return Promise.resolve(process);
      }
    }
    await withTestLocks(new Stock(), locks).start('right');
  },
  async position(locks) {
    class Stock {
      @Locked('k:<1.sku>')
      async take(from: string, order: Order) {
        return Promise.resolve(from + order.sku);
      }
    }
    await withTestLocks(new Stock(), locks).take('wrong', { sku: 'right' });
  },
  async keyParam(locks) {
    class Stock {
      @Locked('k:<order.sku>')
      async take(from: string, @KeyParam('order') order: Order) {
        return Promise.resolve(from + order.sku);
      }
    }
    await withTestLocks(new Stock(), locks).take('wrong', { sku: 'right' });
  },
  async keyFunction(locks) {
    class Stock {
      @Locked((from: string, order: Order) => lockKey`k:${order.sku}`)
      async take(from: string, order: Order) {
        return Promise.resolve(from + order.sku);
      }
    }
    await withTestLocks(new Stock(), locks).take('wrong', { sku: 'right' });
  },
};

const results: Record<string, unknown> = {};
for (const [name, run] of Object.entries(cases)) {
  const locks = new TestLocks();
  try {
    await run(locks);
    results[name] = locks.calls[0]?.keys;
  } catch (error) {
    results[name] = (error as Error).message;
  }
}
// After a minifier, this may be the only use of a global.
console.error(process.version);
console.log(JSON.stringify(results));
