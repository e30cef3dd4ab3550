import type { INestApplicationContext } from '@nestjs/common';
import { LockError, type LockOptions, type LockService } from 'nestjs-locked';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SeededRandom } from '../seeded-random.js';
import type { BrokenRule } from './broken-rule.js';
import { NOTE, type SalePlan } from './sale-plan.js';
import type { InTransaction, Runs, Transactions } from './transactions.js';

/** Runs work outside every transaction. */
const OUTSIDE = AsyncLocalStorage.snapshot();

export interface Shop {
  readonly application: INestApplicationContext;
  readonly transactions: Transactions;
  readonly plain: LockService;
  readonly billing: LockService;
  readonly random: SeededRandom;
  readonly broken: readonly BrokenRule[];
}

/** One call of the application: sells a piece of each of its products in one transaction. */
export class SaleCall {
  readonly #shop: Shop;
  readonly #call: string;
  readonly #plan: SalePlan;
  #run = 0;

  constructor(shop: Shop, call: string, plan: SalePlan) {
    this.#shop = shop;
    this.#call = call;
    this.#plan = plan;
  }

  /** How often its transaction was begun. */
  get run(): number {
    return this.#run;
  }

  async make(): Promise<void> {
    if (this.#plan.style !== 'outside') return this.#transaction();
    const { plain, billing, random } = this.#shop;
    // From the outside to the inside, in the order of restarts: by the prefixes of the keys, and no prefix comes first.
    const fromInside = [
      { locks: billing, name: 'billing' },
      { locks: plain, name: 'plain' },
    ];
    if (this.#isBroken('order') && random.chance(0.5)) fromInside.reverse();
    const locking = fromInside.reduce(
      (work, { locks, name }) =>
        () =>
          this.#lockingAll(locks, name, work),
      () => this.#transaction(),
    );
    await locking();
  }

  #isBroken(rule: BrokenRule): boolean {
    return this.#shop.broken.includes(rule);
  }

  #lockingAll<T>(locks: LockService, name: string, work: () => Promise<T>): Promise<T> {
    const products = this.#plan.products.filter((product) => product.startsWith(name));
    return products.length === 0 ? work() : locks.withLock(products, work);
  }

  async #transaction(): Promise<void> {
    const { application, transactions } = this.#shop;
    await transactions.run(application, this.#plan.isolation, (tx) => this.#body(tx, ++this.#run));
  }

  async #body(given: InTransaction, run: number): Promise<void> {
    const { style, readsFirst, products, leavesWork, fails } = this.#plan;
    const tx = this.#isBroken('branches') ? { ...given, found: () => given.bare } : given;
    const known = new Map<string, number>();
    if (readsFirst) {
      for (const product of products) known.set(product, await read(tx.found(), product));
    }
    if (leavesWork) this.#leaveWork(tx, run);
    const sell = (product: string): Promise<void> =>
      this.#sell(() => tx.found(), run, product, known.get(product));
    switch (style) {
      case 'outside':
        for (const product of products) await sell(product);
        break;
      case 'inside':
        for (const product of products) await this.#locking(product, () => sell(product));
        break;
      case 'nested':
        await this.#nested(products, sell);
        break;
      case 'branches':
        await this.#inBranches(tx, run, sell);
        break;
      case 'join':
        for (const product of products) {
          // A call that waits here has a connection, for which the holder may be waiting.
          await this.#locking(product, () => sell(product), {
            insideTransaction: 'join',
            waitMs: 200,
          });
        }
    }
    if (fails) throw new MeantToFail();
  }

  async #nested(products: readonly string[], sell: (product: string) => Promise<void>) {
    const [first, ...rest] = products;
    if (first === undefined) return;
    await this.#locking(first, async () => {
      await sell(first);
      await this.#nested(rest, sell);
    });
  }

  async #inBranches(
    tx: InTransaction,
    run: number,
    sell: (product: string) => Promise<void>,
  ): Promise<void> {
    const { products, notes, fails } = this.#plan;
    const [first, ...others] = products.map((product) => async (): Promise<void> => {
      await this.#pause(5);
      await this.#locking(product, () => sell(product));
    });
    const unlocked = async (): Promise<void> => {
      for (let n = 0; n < notes; n++) {
        await this.#pause(5);
        await this.#write(tx.found(), run, NOTE);
      }
    };
    const failing = async (): Promise<void> => {
      await this.#pause(15);
      if (fails) throw new MeantToFail();
    };
    const isUnseen = this.#isBroken('branches');
    const branches = [...others, unlocked].map((branch) => (isUnseen ? OUTSIDE(branch) : branch()));
    await Promise.all([first?.(), ...branches, failing()]);
  }

  async #locking(
    product: string,
    work: () => Promise<void>,
    options: LockOptions = {},
  ): Promise<void> {
    const { plain, billing } = this.#shop;
    const locks = product.startsWith('billing') ? billing : plain;
    try {
      const inside = this.#isBroken('inside') ? { insideTransaction: 'join' as const } : {};
      await locks.withLock(product, { ...options, ...inside }, work);
    } catch (error) {
      const isRestart = (error as Error).name === 'TransactionRestart';
      if (!this.#plan.swallows || !isRestart) throw error;
    }
  }

  /** Without a lock, two calls at the same time would lose a piece. */
  async #sell(
    found: () => Runs,
    run: number,
    product: string,
    known: number | undefined,
  ): Promise<void> {
    const quantity = known ?? (await read(found(), product));
    await this.#pause(4);
    await found().query('UPDATE stock SET quantity = $1 WHERE product = $2', [
      quantity - 1,
      product,
    ]);
    await this.#write(found(), run, product);
  }

  #leaveWork({ given, found }: InTransaction, run: number): void {
    const late = this.#shop.random.chance(0.5) ? () => given : found;
    const write = async (): Promise<void> => {
      await this.#pause(60);
      await this.#write(late(), run, NOTE, true);
    };
    write().catch(() => {}); // it comes too late, as it should
  }

  async #write(tx: Runs, run: number, product: string, late = false): Promise<void> {
    await tx.query('INSERT INTO sales VALUES ($1, $2, $3, $4)', [this.#call, run, product, late]);
  }

  async #pause(upToMs: number): Promise<void> {
    await sleep(this.#shop.random.between(0, upToMs));
  }
}

class MeantToFail extends Error {}

async function read(tx: Runs, product: string): Promise<number> {
  const rows = await tx.query('SELECT quantity FROM stock WHERE product = $1', [product]);
  return Number(rows[0]?.['quantity']);
}

/** SQLSTATE classes of errors that the database answers before a commit or instead of one. */
const ANSWERS = /^(?:23|25|40|55|57014)/;

/** Why a call failed. @returns undefined if its COMMIT may have been carried out anyway */
export function reasonOf(error: unknown): string | undefined {
  if (error instanceof MeantToFail) return 'meant to fail';
  if (error instanceof LockError) return error.code;
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' && ANSWERS.test(code) ? code : undefined;
}
