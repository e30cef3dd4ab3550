import { SeededRandom } from 'kit';
import type { DemoOptions } from './options.js';

/** How a request to buy ended. */
export type Outcome = 'sold' | 'refused' | 'busy' | 'failed';

/** Buyer number `buyer` asks for `pieces`. Never rejects. */
export type Buy = (buyer: number, pieces: number) => Promise<Outcome>;

export interface Scenario {
  readonly name: string;
  /** What happens, in one line. */
  readonly story: string;
  /** How many pieces there are. The buyers ask for more than these, so a correct sale ends at 0. */
  readonly pieces: number;
  /** Lets every buyer buy and waits for the last answer. */
  run(buy: Buy): Promise<void>;
}

const WORKERS = 15;
const TIMES = 3;
const PIECES_EACH = 10;

/** A few buyers with equal purchases, of which 10 must succeed and leave nothing. */
export const workersScenario: Scenario = {
  name: `${WORKERS} workers`,
  story: `${WORKERS} workers, each buys ${PIECES_EACH} pieces up to ${TIMES} times, 100 pieces`,
  pieces: 100,

  async run(buy) {
    const workers = Array.from({ length: WORKERS }, async (_, worker) => {
      for (let time = 0; time < TIMES; time++) {
        if ((await buy(worker, PIECES_EACH)) !== 'sold') return;
      }
    });
    await Promise.all(workers);
  },
};

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
