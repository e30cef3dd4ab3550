import { SeededRandom } from 'kit';
import type { DemoOptions } from './options.js';
import type { Scenario } from './scenario.js';

/** A stampede: there are far more buyers than pieces, and each buyer wants 1 to 3. */
export function flashSaleScenario({ buyers, atOnce, pieces, seed }: DemoOptions): Scenario {
  return {
    name: 'flash sale',
    story: `${buyers} buyers of 1 to 3 pieces, ${atOnce} at a time, ${pieces} pieces, seed ${seed}`,
    pieces,

    async run(buy) {
      const random = new SeededRandom(seed);
      const wishes = Array.from({ length: buyers }, () => random.between(1, 3)).entries();
      // All queues take buyers from the same iterator, so each answer makes room for the next buyer.
      const queues = Array.from({ length: atOnce }, async () => {
        for (const [buyer, wish] of wishes) await buy(buyer, wish);
      });
      await Promise.all(queues);
    },
  };
}
