import type { DemoRedis } from './demo-redis.js';
import { type Receipt, Sale } from './sale.js';
import type { Outcome, Scenario } from './scenarios.js';
import type { ShopDatabase } from './shop-database.js';
import type { StockApi } from './stock-api.js';

/** By the status of the answer. */
const OUTCOMES: Readonly<Record<number, Outcome>> = { 201: 'sold', 409: 'refused', 423: 'busy' };

/** Plays scenarios against the running application. Each scenario has a product of its own. */
export class Shop {
  #products = 0;

  constructor(
    private readonly processes: readonly StockApi[],
    private readonly database: ShopDatabase,
    private readonly redis: DemoRedis,
    /** Unique for this run, so that no other demo on a shared Redis has locks with this name. */
    private readonly name: string,
  ) {}

  /** @param onReceipt is called for every answered request */
  async play(scenario: Scenario, isLocked: boolean, onReceipt: () => void): Promise<Sale> {
    const id = `${this.name}_${++this.#products}`;
    // A server may close an idle connection just when a request is on its way.
    for (const process of this.processes) process.closeConnections();
    await this.#putOnSale(id, scenario.pieces);

    const receipts: Receipt[] = [];
    const commandsBefore = await this.redis.clientCommands();
    const startedAt = performance.now();
    await scenario.run(async (buyer, pieces) => {
      const receipt = await this.#buy(id, isLocked, buyer, pieces);
      receipts.push(receipt);
      onReceipt();
      return receipt.outcome;
    });
    const seconds = (performance.now() - startedAt) / 1000;
    const commands = (await this.redis.clientCommands()) - commandsBefore;

    for (const process of this.processes) process.assertRunning();
    return new Sale(scenario, isLocked, receipts, await this.database.books(id), seconds, commands);
  }

  async #putOnSale(id: string, quantity: number): Promise<void> {
    const { status, body } = await this.#processFor(0).send('PUT', `/stock/${id}`, { quantity });
    if (status !== 200) throw new Error(`PUT /stock/${id} was answered with ${status}: ${body}`);
  }

  async #buy(id: string, isLocked: boolean, buyer: number, pieces: number): Promise<Receipt> {
    const path = `${isLocked ? '' : '/unlocked'}/stock/${id}/take`;
    const startedAt = performance.now();
    try {
      const answer = await this.#processFor(buyer).send('POST', path, { quantity: pieces });
      const waitMs = performance.now() - startedAt;
      const outcome = OUTCOMES[answer.status];
      return outcome === undefined
        ? { outcome: 'failed', pieces, waitMs, failure: `status ${answer.status}: ${answer.body}` }
        : { outcome, pieces, waitMs };
    } catch (error) {
      const waitMs = performance.now() - startedAt;
      return { outcome: 'failed', pieces, waitMs, failure: `no answer: ${String(error)}` };
    }
  }

  #processFor(buyer: number): StockApi {
    return this.processes[buyer % this.processes.length] as StockApi;
  }
}
