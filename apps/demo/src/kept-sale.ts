import { setTimeout as sleep } from 'node:timers/promises';
import type { StockApi } from './stock-api.js';

const PRODUCTS = ['chair', 'table', 'shelf', 'lamp'] as const;
/** The product whose stocktake does not end. */
const STUCK = 'lamp';
const STUCK_SECONDS = 3_600;
/** How long all is well after somebody has freed it. */
const RESPITE_MS = 60_000;

const BUYERS = 12;
const PIECES = 1_000;
/** Between two purchases of a buyer. */
const PAUSE_MS = 50;

/**
 * A sale without an end, in which the stock of one product is being counted and nobody can buy it: something to find
 * for an operator, who ends it by taking the lock away.
 */
export class KeptSale {
  readonly #processes: readonly StockApi[];
  #isStopped = false;

  constructor(processes: readonly StockApi[]) {
    this.#processes = processes;
    for (let buyer = 0; buyer < BUYERS; buyer++) void this.#buy(buyer);
    void this.#getStuck();
  }

  /** The process that does not let go of the lock. */
  get #stuck(): StockApi {
    return this.#processes.at(-1) as StockApi;
  }

  async #buy(buyer: number): Promise<void> {
    const product = PRODUCTS[buyer % PRODUCTS.length] as string;
    // Redis knows the call for which a process got its lease. If a sale there handed it on to the stocktake, `ls` and
    // errors of other processes would name the sale.
    const sellers = product === STUCK ? this.#processes.slice(0, -1) : this.#processes;
    const process = sellers[buyer % sellers.length] as StockApi;
    const path = `/stock/${product}`;
    while (!this.#isStopped) {
      const { status } = await process
        .send('POST', `${path}/take`, { quantity: 1 })
        .catch(() => ({ status: 0 })); // the process is being stopped, or was killed to see what happens
      const isSoldOut = status === 409 || status === 404;
      if (isSoldOut) await process.send('PUT', path, { quantity: PIECES }).catch(() => {});
      await pause(PAUSE_MS);
    }
  }

  async #getStuck(): Promise<void> {
    await pause(1_000);
    while (!this.#isStopped) {
      const body = { seconds: STUCK_SECONDS };
      // It fails when the lock has been taken away, and when the process is being stopped.
      await this.#stuck
        .send('POST', `/stocktake/${STUCK}`, body, STUCK_SECONDS * 2_000)
        .catch(() => {});
      await pause(RESPITE_MS);
    }
  }

  /** Called before the processes are stopped, which ends what is under way. */
  stop(): void {
    this.#isStopped = true;
  }
}

function pause(ms: number): Promise<void> {
  return sleep(ms, undefined, { ref: false });
}
