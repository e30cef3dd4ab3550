import type { Cleanup } from '../cleanup.js';
import type { Progress } from '../progress.js';
import type { ShopDatabase } from '../shop-database.js';
import { errorCode } from './error-code.js';
import { Probe } from './probe.js';
import { POOL_SIZE, TrapApp } from './trap-app.js';
import { Trial } from './trial.js';
import { nameOf, type Variant, VARIANTS } from './variant.js';

const CALLERS = 20;
const PIECES = 100;

/**
 * The trap is a lock inside a transaction: every caller keeps a connection while it waits. This tries all the ways to
 * use both.
 */
export class Trap {
  #products = 0;

  constructor(
    private readonly database: ShopDatabase,
    private readonly redisUrl: string,
    /** Unique for this run. */
    private readonly name: string,
    private readonly cleanup: Cleanup,
  ) {}

  async play(progress: Progress): Promise<readonly Trial[]> {
    progress.say(
      `The trap: ${CALLERS} callers at once, a pool of ${POOL_SIZE}, and work that needs a second connection`,
    );
    const trials: Trial[] = [];
    for (const variant of VARIANTS) {
      const trial = await this.#try(variant);
      progress.say(
        `  ${nameOf(variant)}: ${trial.succeeded} of ${CALLERS} succeeded in ` +
          `${trial.seconds.toFixed(1)} s, the stock is ${trial.isExact ? 'exact' : 'WRONG'}`,
      );
      trials.push(trial);
    }
    return trials;
  }

  async #try(variant: Variant): Promise<Trial> {
    const productId = `${this.name}_trap_${++this.#products}`;
    await this.database.putOnSale(productId, PIECES);
    const app = await this.cleanup.use(
      () => TrapApp.start(variant, { databaseUrl: this.database.url, redisUrl: this.redisUrl }),
      (started) => started.close(),
    );

    const orders = Array.from({ length: CALLERS }, () => ({ productId, runs: 0 }));
    const probe = new Probe(() => app.unrelatedQuery());
    const startedAt = performance.now();
    const answers = await Promise.allSettled(orders.map((order) => app.place(order)));
    const seconds = (performance.now() - startedAt) / 1000;
    const worstUnrelatedMs = await probe.stop();
    await app.close();

    const errorCodes = answers.flatMap((answer) =>
      answer.status === 'rejected' ? [errorCode(answer.reason)] : [],
    );
    return new Trial(
      variant,
      PIECES,
      CALLERS - errorCodes.length,
      errorCodes,
      orders.reduce((sum, { runs }) => sum + Math.max(0, runs - 1), 0),
      worstUnrelatedMs,
      await this.database.books(productId),
      seconds,
    );
  }
}
