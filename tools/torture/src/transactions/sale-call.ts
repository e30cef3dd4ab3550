import type { INestApplicationContext } from '@nestjs/common';
import type { SeededRandom } from 'kit';
import {
  LockCommitUnknownError,
  LockError,
  type LockOptions,
  type LockService,
} from 'nestjs-locked';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { HistoryFile } from '../history/history-file.js';
import { NOTE, type SalePlan } from './sale-plan.js';
import type { SaleKinds } from './sales-history.js';
import type { BrokenRule, SalesTask } from './sales-task.js';
import type { InTransaction, Runs, Transactions } from './transactions.js';

/** Refusals that blame a lock although none was asked for. */
const REFUSALS = new Set(['LOCK_IN_TRANSACTION', 'LOCK_CONFIG_INVALID']);
/** By then a process has heard that one of its locks was taken away. */
const TOLD_MS = 300;
const TURN_MS = 50;
/** A COMMIT that takes longer is written down. */
const SLOW_COMMIT_MS = 1_000;
/** So much longer than the driver waits that it does not wait for the ROLLBACK behind it either. */
const SLOW_S = 2.5;

/** Runs work outside every transaction. */
const OUTSIDE = AsyncLocalStorage.snapshot();

/** Each product is guarded by the service with whose name its own begins. */
type Service = 'plain' | 'billing';

export interface Shop {
  readonly application: INestApplicationContext;
  readonly transactions: Transactions;
  readonly locks: Readonly<Record<Service, LockService>>;
  readonly random: SeededRandom;
  readonly task: SalesTask;
  readonly history: HistoryFile<SaleKinds>;
}

/** One call of the application: sells a piece of each of its products in one transaction. */
export class SaleCall {
  readonly #shop: Shop;
  readonly #call: string;
  readonly #plan: SalePlan;
  #run = 0;
  #hasReturned = false;
  /** Whether its body has swallowed the error that begins it again, so that this run is not committed. */
  #beginsAgain = false;
  #commitTurns = 0;
  #ticking: NodeJS.Timeout | undefined;

  constructor(shop: Shop, call: string, plan: SalePlan) {
    this.#shop = shop;
    this.#call = call;
    this.#plan = plan;
  }

  /** How often its transaction was begun. */
  get run(): number {
    return this.#run;
  }

  /** Whether the body of its last run came to its end, so that it was to be committed. */
  get wasToCommit(): boolean {
    return this.#hasReturned;
  }

  async make(): Promise<void> {
    const { style } = this.#plan;
    const { locks, random } = this.#shop;
    const transaction = () => this.#transaction();
    if (style === 'unlocked' && this.#isBroken('audits')) {
      return locks.plain.withLock(this.#call, transaction);
    }
    if (style !== 'outside' && style !== 'fixed') return transaction();
    // From the outside to the inside, in the order of restarts: by the prefixes of the keys, and no prefix comes first.
    const services: Service[] = ['plain', 'billing'];
    if (this.#isBroken('order') && random.chance(0.5)) services.reverse();
    await this.#lockingAll(services, transaction);
  }

  #isBroken(rule: BrokenRule): boolean {
    return this.#shop.task.broken.includes(rule);
  }

  /** All products of each lock service at once, those of the first service outside. */
  #lockingAll(services: readonly Service[], work: () => Promise<void>): Promise<void> {
    const [service, ...others] = services;
    if (service === undefined) return work();
    const inside = () => this.#lockingAll(others, work);
    const products = this.#plan.products.filter((product) => serviceOf(product) === service);
    if (products.length === 0) return inside();
    const options = this.#plan.style === 'fixed' ? { renew: false } : {};
    return this.#shop.locks[service].withLock(products, options, inside);
  }

  async #transaction(): Promise<void> {
    const { application, transactions } = this.#shop;
    const { isolation, losesLock } = this.#plan;
    let inBody = AsyncLocalStorage.snapshot();
    const body = async (tx: InTransaction): Promise<void> => {
      inBody = AsyncLocalStorage.snapshot();
      this.#hasReturned = false;
      this.#beginsAgain = false;
      const run = ++this.#run;
      await this.#body(tx, run);
      if (this.#beginsAgain) return;
      this.#hasReturned = true;
      this.#watchCommit();
    };
    const hooks = {
      beforeCommit: async () => {
        if (losesLock === 'before the COMMIT') await this.#loseLock(true);
      },
      afterCommit: async () => {
        this.#endCommit();
        if (losesLock === 'after the COMMIT') await this.#loseLock(false);
      },
    };
    try {
      await transactions.run(application, isolation, body, hooks);
    } catch (error) {
      this.#endCommit();
      // Code of the transaction that goes on when it has failed, as a listener does.
      if (this.#plan.audits === 'after a failure') await inBody(() => this.#audit(this.#run));
      throw error;
    }
    this.#endCommit();
  }

  /** Somebody takes one of its locks away, and its process is told. */
  async #loseLock(isBeforeCommit: boolean): Promise<void> {
    const [product] = this.#plan.products;
    if (product === undefined) return;
    const wasTaken = await this.#locksOf(product).forceRelease(product);
    await sleep(TOLD_MS);
    // If the process was stopped meanwhile, what it was told is read now.
    await nextTurn();
    await nextTurn();
    if (wasTaken && isBeforeCommit) this.#note('robbed', { run: this.#run });
  }

  /** Asks for no lock, so that no lock may refuse it, except what is known around a transaction that is locked. */
  async #audit(run: number): Promise<void> {
    const { application, transactions } = this.#shop;
    try {
      await transactions.alone(application, async (tx) => {
        await tx.query('INSERT INTO audit VALUES ($1, $2)', [this.#call, run]);
      });
      this.#note('audited', { run });
    } catch (error) {
      const why = error instanceof LockError ? error.code : '';
      if (REFUSALS.has(why) && !this.#mayRefuseAudit()) this.#note('unaudited', { run, why });
    }
  }

  /**
   * Under a lock, the fence refuses a second transaction inside of the first. And where a transaction is found in the
   * context, nothing tells what was meant to be a part of one that has failed from what stands alone, so that both are
   * refused.
   */
  #mayRefuseAudit(): boolean {
    const { fence, opens } = this.#shop.task;
    if (this.#plan.style === 'unlocked') return false;
    return this.#plan.audits === 'in the body' ? fence : opens === 'cls';
  }

  /** Counts turns of the event loop, so that a process that is stopped is not thought to have waited. */
  #watchCommit(): void {
    clearInterval(this.#ticking);
    this.#commitTurns = 0;
    this.#ticking = setInterval(() => this.#commitTurns++, TURN_MS);
  }

  #endCommit(): void {
    clearInterval(this.#ticking);
    const ms = this.#commitTurns * TURN_MS;
    this.#commitTurns = 0;
    if (ms > SLOW_COMMIT_MS) this.#note('committing', { ms });
  }

  #locksOf(product: string): LockService {
    return this.#shop.locks[serviceOf(product)];
  }

  #note<Kind extends 'robbed' | 'audited' | 'unaudited' | 'committing'>(
    kind: Kind,
    told: Omit<SaleKinds[Kind], 'call'>,
  ): void {
    this.#shop.history.note(kind, { call: this.#call, ...told } as SaleKinds[Kind]);
  }

  async #body(given: InTransaction, run: number): Promise<void> {
    const { style, readsFirst, products, leavesWork, fails } = this.#plan;
    const tx = this.#isBroken('branches') ? { ...given, found: () => given.bare } : given;
    const known = new Map<string, number>();
    if (readsFirst) {
      for (const product of products) known.set(product, await read(tx.found(), product));
    }
    if (leavesWork) this.#leaveWork(tx, run);
    if (this.#plan.audits === 'in the body') await this.#audit(run);
    const sell = (product: string): Promise<void> =>
      this.#sell(tx.found, run, product, known.get(product));
    const sellAll = async (): Promise<void> => {
      for (const product of products) await sell(product);
    };
    switch (style) {
      case 'outside':
      case 'fixed':
        await sellAll();
        break;
      case 'inside':
      case 'join':
        for (const product of products) await this.#locking(product, () => sell(product));
        break;
      case 'several':
        await this.#unlessSwallowed(() => this.#lockingAll(['billing', 'plain'], sellAll));
        break;
      case 'unlocked':
        for (let n = 0; n < this.#plan.notes; n++) await this.#write(tx.found(), run, NOTE);
        break;
      case 'nested':
        await this.#nested(products, sell);
        break;
      case 'branches':
        await this.#inBranches(tx, run, sell);
    }
    if (this.#plan.isSlow) await tx.found().query('SELECT pg_sleep($1)', [SLOW_S]);
    if (this.#plan.losesLock === 'in the body') await this.#loseLock(true);
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
    let noteAsked: () => void = () => {};
    // A branch that asks for its first lock when the transaction has failed already is code without locks.
    const isAsked = new Promise<void>((resolve) => (noteAsked = resolve));
    const [first, ...others] = products.map((product) => async (): Promise<void> => {
      await this.#pause(5);
      const locked = this.#locking(product, () => sell(product));
      noteAsked();
      await locked;
    });
    const unlocked = async (): Promise<void> => {
      for (let n = 0; n < notes; n++) {
        await this.#pause(5);
        await this.#write(tx.found(), run, NOTE);
      }
    };
    const failing = async (): Promise<void> => {
      await isAsked;
      await this.#pause(15);
      if (fails) throw new MeantToFail();
    };
    const isUnseen = this.#isBroken('branches');
    const branches = [...others, unlocked].map((branch) => (isUnseen ? OUTSIDE(branch) : branch()));
    await Promise.all([first?.(), ...branches, failing()]);
  }

  async #locking(product: string, work: () => Promise<void>): Promise<void> {
    const isJoined = this.#plan.style === 'join';
    const options: LockOptions = {
      ...((isJoined || this.#isBroken('inside')) && { insideTransaction: 'join' }),
      // A call that waits inside has a connection, for which the holder may be waiting.
      ...(isJoined && { waitMs: 200 }),
    };
    await this.#unlessSwallowed(() => this.#locksOf(product).withLock(product, options, work));
  }

  async #unlessSwallowed(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const isRestart = (error as Error).name === 'TransactionRestart';
      if (!this.#plan.swallows || !isRestart) throw error;
      this.#beginsAgain = true;
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

function serviceOf(product: string): Service {
  return product.startsWith('billing') ? 'billing' : 'plain';
}

async function read(tx: Runs, product: string): Promise<number> {
  const rows = await tx.query('SELECT quantity FROM stock WHERE product = $1', [product]);
  return Number(rows[0]?.['quantity']);
}

/** SQLSTATE classes of errors that the database answers before a commit or instead of one. */
const ANSWERS = /^(?:23|25|40|55|57014)/;

/** Why a call failed. @returns undefined if its COMMIT may have been carried out anyway */
export function reasonOf(error: unknown): string | undefined {
  if (error instanceof MeantToFail) return 'meant to fail';
  if (error instanceof LockCommitUnknownError) return undefined;
  if (error instanceof LockError) return error.code;
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' && ANSWERS.test(code) ? code : undefined;
}
