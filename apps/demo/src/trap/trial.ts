import type { Books } from '../shop-database.js';
import { nameOf, type Variant } from './variant.js';

const REFUSED = 'LOCK_IN_TRANSACTION';

/** A variant that was tried, with what the callers were told and what the database says. */
export class Trial {
  constructor(
    readonly variant: Variant,
    readonly pieces: number,
    readonly succeeded: number,
    /** The error code of each caller that failed. */
    readonly errorCodes: readonly string[],
    readonly restarts: number,
    /** The longest wait of a query that has nothing to do with the orders. */
    readonly worstUnrelatedMs: number,
    readonly books: Books,
    readonly seconds: number,
  ) {}

  get callers(): number {
    return this.succeeded + this.errorCodes.length;
  }

  failed(code: string): number {
    return this.errorCodes.filter((candidate) => candidate === code).length;
  }

  /** What the stock must be, according to what the callers were told. */
  get truth(): number {
    return this.pieces - this.succeeded;
  }

  get isExact(): boolean {
    return this.books.left === this.truth && this.books.purchases === this.succeeded;
  }

  /** What went wrong, in sentences; empty if the outcome is as required, or is only reported. */
  get faults(): readonly string[] {
    const { mustBe } = this.variant;
    if (mustBe === undefined) return [];
    const faults: string[] = [];
    const [done, what] =
      mustBe === 'all sold' ? [this.succeeded, 'sold'] : [this.failed(REFUSED), 'refused'];
    if (done !== this.callers) {
      faults.push(`${done} of ${this.callers} ${what}, failed: ${this.failures || 'none'}`);
    }
    if (!this.isExact) {
      faults.push(`the stock is ${this.books.left}, it must be ${this.truth}`);
    }
    return faults.map((fault) => `${nameOf(this.variant)}: ${fault}`);
  }

  /** How many callers failed with which code, in words. */
  get failures(): string {
    const codes = [...new Set(this.errorCodes)];
    return codes.map((code) => `${this.failed(code)} ${code}`).join(', ');
  }
}
