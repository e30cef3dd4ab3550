import type { Scenario } from './scenario.js';

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
