import type { Outcome, Scenario } from './scenarios.js';
import type { Books } from './shop-database.js';

/** One answered request. */
export interface Receipt {
  readonly outcome: Outcome;
  readonly pieces: number;
  /** The time from sending the request to its answer. */
  readonly waitMs: number;
  /** Why it failed, if it did. */
  readonly failure?: string;
}

/** A scenario that was played, with what the buyers were told and what the database says. */
export class Sale {
  constructor(
    readonly scenario: Scenario,
    readonly isLocked: boolean,
    readonly receipts: readonly Receipt[],
    readonly books: Books,
    readonly seconds: number,
    readonly redisCommands: number,
  ) {}

  count(outcome: Outcome): number {
    return this.receipts.filter((receipt) => receipt.outcome === outcome).length;
  }

  get soldPieces(): number {
    return this.receipts
      .filter(({ outcome }) => outcome === 'sold')
      .reduce((sum, { pieces }) => sum + pieces, 0);
  }

  /** How many pieces were sold that never existed. */
  get oversold(): number {
    return Math.max(0, this.soldPieces - this.scenario.pieces);
  }

  /** How many pieces were sold that the final stock does not account for. */
  get lostUpdates(): number {
    return this.soldPieces - (this.scenario.pieces - this.books.left);
  }

  get requestsPerSecond(): number {
    return this.receipts.length / this.seconds;
  }

  /** @param share 0.5 = median, 1 = the longest */
  waitPercentile(share: number): number {
    const waits = this.receipts.map(({ waitMs }) => waitMs).sort((a, b) => a - b);
    return waits[Math.max(0, Math.ceil(share * waits.length) - 1)] ?? 0;
  }

  /** What would not happen in a correct sale, in sentences; empty if the sale was exact. */
  get faults(): readonly string[] {
    const { pieces } = this.scenario;
    const { left, purchases, pieces: bookedPieces } = this.books;
    const failed = this.receipts.filter(({ outcome }) => outcome === 'failed');
    const sold = this.count('sold');
    const faults: string[] = [];
    if (failed.length > 0) {
      const reason = failed[0]?.failure;
      faults.push(
        `${failed.length} of ${this.receipts.length} requests failed, the first with: ${reason}`,
      );
    }
    if (this.lostUpdates !== 0) {
      faults.push(
        `${this.soldPieces} pieces were sold, but the stock went from ${pieces} to ${left}`,
      );
    }
    if (left < 0) {
      faults.push(`the stock ended below zero, at ${left}`);
    }
    if (left > 0) {
      faults.push(
        `${left} pieces are left although more were asked for (busy: ${this.count('busy')})`,
      );
    }
    if (purchases !== sold || bookedPieces !== this.soldPieces) {
      faults.push(
        `the database has ${purchases} purchases of ${bookedPieces} pieces, ` +
          `but buyers were told of ${sold} with ${this.soldPieces}`,
      );
    }
    return faults;
  }
}
