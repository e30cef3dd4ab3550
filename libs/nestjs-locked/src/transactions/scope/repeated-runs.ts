import type { AskedLocks, TransactionalLocks } from '../../core/calls/open-transaction.js';
import { byBytes } from '../../core/keys/key-order.js';
import { LockInTransactionError, LockNotAcquiredError } from '../../core/lock.errors.js';
import type { ResolvedLockOptions } from '../../core/resolved.options.js';
import { templateOf } from '../../core/template-of.js';
import { systemClock } from '../../core/time/clock.js';
import { AFTERMATH_MS, type Asker, type RunMemory, TransactionRun } from './transaction-run.js';

const MAX_RESTARTS = 8;

/** A key that was requested inside the transaction: later runs hold it from their beginning. */
interface Wanted {
  readonly locks: TransactionalLocks;
  readonly key: string;
  /** The options of the first requesting call, which would acquire the key; later calls would join. */
  readonly options: ResolvedLockOptions;
  /** How long the transaction had already waited when the key was requested. */
  readonly waitedBefore: number;
  /**
   * Set if somebody else held the key for the whole wait: in a further run without it, the requesting call gets this
   * error.
   */
  refused: LockNotAcquiredError | undefined;
  /**
   * Set if the call's signal had aborted before the wait and the key was not free. A further run without the key shows
   * the reason: either the signal has aborted there too, because the caller has left, or the call has a new signal,
   * because the old one belonged to the abandoned run, such as one aborted in a `finally`.
   */
  hasUnclearSignal: boolean;
  /** Whether its runs were seen to discard their signals, so that one aborted before the wait has no meaning. */
  readonly leavesSignals: boolean;
}

/** Adjacent keys in order that can be taken with one call. */
interface Batch {
  readonly locks: TransactionalLocks;
  readonly wanted: readonly Wanted[];
}

/**
 * The runs of one outermost transaction, which is run again with all the keys requested inside it until nothing new is
 * requested. No key of an earlier run stays held between runs, because waiting for some keys while holding others would
 * violate the order.
 *
 * If a key is not free in time, the whole transaction fails, unless the requesting call handles that itself (a single
 * try, or `onBusy`). Then the transaction is run once more without the key, so that the call can do so.
 */
export class RepeatedRuns implements RunMemory {
  readonly #wanted: Wanted[] = [];
  #runs = 0;
  /** The sum of all waits for keys: the `waitMs` of a call covers all runs together. */
  #waitedMs = 0;
  #waitingSince: number | undefined;
  #endedAt = Infinity;

  get isRecent(): boolean {
    return systemClock.now() < this.#endedAt + AFTERMATH_MS;
  }

  /** Runs the transaction until nothing new is requested. */
  async repeat<R>(once: (run: TransactionRun) => Promise<R>): Promise<R> {
    try {
      return await this.#repeat(once);
    } finally {
      this.#endedAt = systemClock.now();
    }
  }

  async #repeat<R>(once: (run: TransactionRun) => Promise<R>): Promise<R> {
    for (;;) {
      const run = new TransactionRun(this);
      try {
        return await this.#holding(run, () => once(run));
      } catch (error) {
        if (!run.isRepeated) throw run.told(error);
        this.#runs++;
      }
    }
  }

  /** Told when the keys are held. A run that begins anew without any is not told: nothing was requested inside. */
  #tellRestarted(): void {
    const asked = this.#wanted.at(-1);
    if (asked === undefined) return;
    const { key, locks, options } = asked;
    const template = templateOf(key, options.template);
    const { label } = options;
    locks.report({ type: 'transaction', outcome: 'restarted', key, label, template });
  }

  assertNotRefused(locks: TransactionalLocks, { keys, options }: AskedLocks): void {
    for (const key of keys) {
      const wanted = this.#find(locks, key);
      if (wanted?.refused !== undefined && !isMorePatient(options, wanted.options)) {
        throw wanted.refused;
      }
    }
  }

  assertMayRepeat({ callSite, keys }: Asker): void {
    if (this.#runs < MAX_RESTARTS) return;
    throw new LockInTransactionError(
      `${callSite}: lock '${keys[0]}' was requested inside a transaction that was restarted ${MAX_RESTARTS} times, for other keys, for a lock that was acquired meanwhile, or because the signal of a call had aborted; acquire all of them before the transaction begins`,
      keys[0],
    );
  }

  note(locks: TransactionalLocks, { keys, options }: AskedLocks): void {
    for (const key of keys) {
      const known = this.#find(locks, key);
      if (known !== undefined && isToBeHeld(known)) continue;
      if (known !== undefined) this.#forget(known);
      // Without a signal, the key was only tried once, and the call still waits for it.
      const waitedBefore = known?.hasUnclearSignal === true ? known.waitedBefore : this.#waited();
      const leavesSignals = known?.hasUnclearSignal === true || known?.leavesSignals === true;
      const state = { refused: undefined, hasUnclearSignal: false, leavesSignals };
      this.#wanted.push({ locks, key, options, waitedBefore, ...state });
    }
  }

  /** Called when the caller has left. Other calls for the key have their own signals. */
  noteAborted(locks: TransactionalLocks, { keys, options }: AskedLocks): void {
    for (const key of keys) {
      const known = this.#find(locks, key);
      if (known?.hasUnclearSignal !== true || known.options.signal !== options.signal) continue;
      this.#forget(known);
    }
  }

  #forget(known: Wanted): void {
    this.#wanted.splice(this.#wanted.indexOf(known), 1);
  }

  #find(locks: TransactionalLocks, key: string): Wanted | undefined {
    return this.#wanted.find((wanted) => wanted.locks === locks && wanted.key === key);
  }

  /** Takes the requested keys with no transaction open, in one order across all lock services. */
  #holding<R>(run: TransactionRun, once: () => Promise<R>): Promise<R> {
    const wanted = this.#wanted.filter(isToBeHeld);
    if (wanted.length === 0) return once();
    this.#waitingSince = systemClock.now();
    return this.#taking(inBatches(wanted.sort(inOneOrder)), run, () => {
      if (this.#runs > 0) this.#tellRestarted();
      this.#waitedMs = this.#waited();
      this.#waitingSince = undefined;
      return once();
    });
  }

  /** Takes the batches nested in each other, then runs. An error after a batch was entered comes from inside. */
  async #taking<R>(
    batches: readonly Batch[],
    run: TransactionRun,
    once: () => Promise<R>,
  ): Promise<R> {
    const [first, ...rest] = batches;
    if (first === undefined) return once();
    const { locks, wanted } = first;
    const { options, waitedBefore, leavesSignals } = wanted[0] as Wanted;
    const isAborted = options.signal?.aborted === true;
    const hasUnclearSignal = isAborted && !leavesSignals;
    const leftMs = Math.max(0, Math.ceil(options.waitMs - (this.#waited() - waitedBefore)));
    const waitMs = hasUnclearSignal ? 0 : leftMs;
    const signal = isAborted ? undefined : options.signal;
    let entered = false;
    try {
      const keys = wanted.map(({ key }) => key);
      // Calls that join decide how long a key stays taken after their work; there is no work here.
      const forCalls = { ...options, waitMs, signal, holdAtLeastMs: 0 };
      return await locks.holding(keys, forCalls, (acquired) => {
        entered = true;
        return this.#taking(rest, run, once).catch((error: unknown) => {
          // A call outside the transaction may have requested more.
          if (run.isRepeated) for (const hold of acquired) hold.keptUntil = -Infinity;
          throw error;
        });
      });
    } catch (error) {
      if (entered || !(error instanceof LockNotAcquiredError)) throw error;
      if (options.isBusyFatal && !hasUnclearSignal) throw error;
      const busy = wanted.find(({ key }) => key === error.key);
      if (busy === undefined) throw error;
      if (hasUnclearSignal) busy.hasUnclearSignal = true;
      else busy.refused = error;
      const others = wanted.filter((one) => one !== busy);
      const left = others.length === 0 ? rest : [{ locks, wanted: others }, ...rest];
      return this.#taking(left, run, once);
    }
  }

  #waited(): number {
    const since = this.#waitingSince;
    return this.#waitedMs + (since === undefined ? 0 : systemClock.now() - since);
  }
}

function isToBeHeld({ refused, hasUnclearSignal }: Wanted): boolean {
  return refused === undefined && !hasUnclearSignal;
}

/** A call with a longer `waitMs` than the refused one may still get the key. */
function isMorePatient(options: ResolvedLockOptions, than: ResolvedLockOptions): boolean {
  return options.waitMs > than.waitMs;
}

/** The same order in every process: two transactions that need the same keys take them in the same order. */
function inOneOrder(a: Wanted, b: Wanted): number {
  return byBytes(a.locks.orderedBy, b.locks.orderedBy) || byBytes(a.key, b.key);
}

function inBatches(wanted: readonly Wanted[]): Batch[] {
  const batches: { locks: TransactionalLocks; wanted: Wanted[] }[] = [];
  for (const one of wanted) {
    const last = batches.at(-1);
    if (last !== undefined && canBeTakenTogether(last.wanted[0] as Wanted, one)) {
      last.wanted.push(one);
    } else {
      batches.push({ locks: one.locks, wanted: [one] });
    }
  }
  return batches;
}

/** Only keys with equal options, because one call has one set of options. */
function canBeTakenTogether(a: Wanted, b: Wanted): boolean {
  if (a.locks !== b.locks || a.waitedBefore !== b.waitedBefore) return false;
  if (a.leavesSignals !== b.leavesSignals) return false;
  const names = Object.keys(a.options) as (keyof ResolvedLockOptions)[];
  return names.every((name) => name === 'message' || a.options[name] === b.options[name]);
}
