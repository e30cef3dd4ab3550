import type { OfCall } from 'check-history';
import { AsyncLocalStorage } from 'node:async_hooks';
import { LockEngine } from '../../../../libs/nestjs-locked/dist/modules/core/engine/lock-engine.js';
import type { Lock } from '../../../../libs/nestjs-locked/dist/modules/core/lock.js';
import type { LockOptions } from '../../../../libs/nestjs-locked/dist/modules/core/lock.options.js';
import { resolveServiceOptions } from '../../../../libs/nestjs-locked/dist/modules/core/resolved.options.js';
import type { LockStore } from '../../../../libs/nestjs-locked/dist/modules/core/store/lock-store.js';
import type {
  CancelTimer,
  Clock,
} from '../../../../libs/nestjs-locked/dist/modules/core/time/clock.js';
import type { History } from '../history.js';
import type { Machine } from '../network/machine.js';
import type { ServerHost } from '../network/server-host.js';
import { SimulatedClient } from '../network/simulated-connection.js';
import type { HandOff, PlannedAdopter, PlannedCall, PlannedProcess } from '../plan.js';
import { BEGINNING } from '../world/virtual-node.js';

/** How long a step of the work takes, at most: it looks whether it still holds the lock at each. */
const STEP_MS = 25;
/** A look asks the process of the holder who it is, and goes on without an answer after this time. */
const ASKED_HOLDER_MS = 500;

/** A lock that somebody may adopt. */
export interface DetachedLock {
  readonly text: string;
  /** What the history calls that text. */
  readonly from: string;
  readonly keys: readonly string[];
  readonly adopters: readonly PlannedAdopter[];
}

/** A call that adopts a lock. */
interface Adopter extends PlannedAdopter {
  readonly name: string;
  readonly from: string;
  readonly keys: readonly string[];
}

/** What a call does under its lock. */
type Work = Pick<PlannedCall, 'name' | 'keys' | 'workMs' | 'prolongs' | 'permits' | 'handOff'>;

/** A call that detaches its lock. */
interface Detaching {
  readonly process: string;
  readonly call: string;
  readonly keys: readonly string[];
  readonly handOff: HandOff;
}

/** What a store is made of. */
export interface StoreNeeds {
  /** One for each server. */
  readonly clients: readonly [SimulatedClient, ...SimulatedClient[]];
  readonly clock: Clock;
  readonly random: () => number;
  readonly plan: PlannedProcess;
}

/** What the world does for a process. */
export interface Surroundings {
  readonly storeOf: (needs: StoreNeeds) => LockStore;
  /** Brings the text of a lock to those that are to adopt it. */
  readonly pass: (lock: DetachedLock) => void;
}

type Outcome = Extract<OfCall, { type: 'ended' }>['outcome'];

const OUTCOMES: Readonly<Record<string, Outcome>> = {
  LOCK_NOT_ACQUIRED: 'busy',
  LOCK_ABORTED: 'aborted',
  LOCK_NOT_ADOPTED: 'not adopted',
};

/** A process of an application: one lock service, and its callers. */
export class SimulatedProcess {
  readonly clients: StoreNeeds['clients'];
  readonly #engine: LockEngine;
  readonly #history: History;
  readonly #pass: Surroundings['pass'];
  #isClosing = false;
  #isOpen = false;
  #opened: Promise<boolean> | undefined;

  constructor(
    readonly machine: Machine,
    servers: readonly ServerHost[],
    history: History,
    readonly plan: PlannedProcess,
    { storeOf, pass }: Surroundings,
  ) {
    this.#history = history;
    this.#pass = pass;
    const { leaseMs, lingerMs, localHandovers } = plan;
    const clients = servers.map((server) => new SimulatedClient(machine, server));
    this.clients = clients as unknown as StoreNeeds['clients'];
    const clock = clockOf(machine);
    const random = (): number => machine.random.next();
    const store = storeOf({ clients: this.clients, clock, random, plan });
    const options = resolveServiceOptions({
      leaseMs,
      lingerMs,
      ...(localHandovers === undefined ? {} : { localHandovers }),
    });
    this.#engine = new LockEngine({
      store,
      options,
      clock,
      random,
      report: () => {},
    });
  }

  /** That of the first server. */
  get client(): SimulatedClient {
    return this.clients[0];
  }

  /** Connects, and makes the planned calls. */
  start(): void {
    this.#opened = this.#engine.open().then(
      () => (this.#isOpen = true),
      (error: unknown) => {
        this.#engine.openLater(error as Parameters<LockEngine['openLater']>[0]);
        return false;
      },
    );
    for (const call of this.plan.calls) {
      this.machine.after(call.atMs, () => void this.#opened?.then(() => this.call(call)));
    }
  }

  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    await this.#engine.close(1_000);
    this.#history.tell({ type: 'closed', process: this.machine.name });
  }

  /** Whether it has reached the server at its start. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  async call(planned: PlannedCall): Promise<void> {
    if (this.#isClosing) return;
    const { name, keys, waitMs, keepMs, mode, permits, weight, maxHoldMs } = planned;
    const wanted = {
      keys,
      waitMs: planned.kind === 'look' ? waitMs + ASKED_HOLDER_MS : waitMs,
      ...(keepMs !== undefined && { keepMs }),
      ...(mode !== undefined && { mode }),
      ...(permits !== undefined && { permits }),
      ...(weight !== undefined && { weight }),
    };
    // A lock that is not renewed, or may not last, ends while the work goes on, as it was told.
    const isLimited = planned.kind === 'fixed' || maxHoldMs !== undefined;
    await this.#record(name, wanted, () => this.#make(planned), isLimited);
  }

  /** Goes on under a lock that was detached, here or elsewhere. */
  async adopt(text: string, adopter: Adopter): Promise<void> {
    await this.#opened; // before that, it waits for the server, for as long as a start may take
    if (this.#isClosing) return;
    const { name, from, keys } = adopter;
    await this.#record(name, { keys, waitMs: 0, adopts: from }, async () => {
      await this.#engine.withAdopted(text, {}, (lock) => this.#work(adopter, lock));
      return true;
    });
  }

  /** @param isLimited whether its lock is expected to end before the work */
  async #record(
    call: string,
    wanted: Omit<Extract<OfCall, { type: 'called' }>, 'type' | 'process' | 'call' | 'leaseMs'>,
    make: () => Promise<boolean>,
    isLimited = false,
  ): Promise<void> {
    const of = { process: this.machine.name, call };
    this.#history.tell({ type: 'called', ...of, ...wanted, leaseMs: this.plan.leaseMs });
    try {
      const isDone = await make();
      this.#history.tell({ type: 'ended', ...of, outcome: isDone ? 'done' : 'busy' });
    } catch (error) {
      const { code = '', message } = error as { code?: string; message: string };
      const outcome = isLimited && code === 'LOCK_LOST' ? 'done' : (OUTCOMES[code] ?? 'failed');
      this.#history.tell({ type: 'ended', ...of, outcome, error: `${code}: ${message}` });
    }
  }

  /** @returns false if somebody else holds the lock */
  async #make(planned: PlannedCall): Promise<boolean> {
    const { kind, keys, waitMs, abortMs, keepMs, label, mode, nestedReads, maxHoldMs } = planned;
    const { permits, weight } = planned;
    const engine = this.#engine;
    const how: Pick<LockOptions, 'mode' | 'permits' | 'weight'> = {
      ...(mode !== undefined && { mode }),
      ...(permits !== undefined && { permits: (key: string) => permits[key] }),
      ...(weight !== undefined && { weight }),
    };
    const options: LockOptions = {
      waitMs,
      ...how,
      ...(label !== undefined && { label }),
      ...(maxHoldMs !== undefined && { maxHoldMs }),
    };
    const inner: LockOptions = {
      ...options,
      ...(nestedReads === true && { mode: 'shared' }),
      ...(weight !== undefined && { weight: 1 }),
    };
    const work = (lock: Lock): Promise<void> => this.#work(planned, lock);
    switch (kind) {
      case 'withLock':
      case 'several':
        await engine.withLock(keys, options, work);
        return true;
      case 'nested':
        await engine.withLock(keys, options, async (lock) => {
          await this.#work(planned, lock, () =>
            engine.withLock(keys, inner, () => this.#sleep(STEP_MS)),
          );
        });
        return true;
      case 'fixed':
        await engine.withLock(keys, { ...options, renew: false }, work);
        return true;
      case 'aborted': {
        const controller = new AbortController();
        this.machine.after(abortMs, () => controller.abort());
        await engine.withLock(keys, { ...options, signal: controller.signal }, work);
        return true;
      }
      case 'kept':
        await engine.withLock(keys, { ...options, holdAtLeastMs: keepMs ?? 0 }, work);
        return true;
      case 'look':
        await engine.inspect(keys[0] ?? '');
        for await (const { key } of engine.list('*')) void key;
        return true;
      case 'force':
        await engine.forceRelease(keys[0] ?? '');
        return true;
      case 'acquire':
        await this.#workAndRelease(planned, await engine.acquire(keys, options));
        return true;
      case 'try': {
        const lock = await engine.tryAcquire(keys, how);
        if (lock !== null) await this.#workAndRelease(planned, lock);
        return lock !== null;
      }
    }
  }

  async #workAndRelease(planned: Work, lock: Lock): Promise<void> {
    try {
      await this.#work(planned, lock);
    } finally {
      await lock.release();
    }
  }

  /** @param nested what it does first */
  async #work(
    { name: call, keys, workMs, prolongs, permits = {}, handOff }: Work,
    lock: Lock,
    nested: () => Promise<void> = async () => {},
  ): Promise<void> {
    const of = { process: this.machine.name, call };
    const isBelieved = (): boolean => lock.isHeld && !lock.signal.aborted;
    const assured = (): void => {
      const until = this.machine.time.now + lock.remainingMs();
      this.#history.tell({ type: 'assured', ...of, until });
    };
    const isPermit = (key: string): boolean => permits[key] !== undefined;
    const fenced = keys.filter((key) => !isPermit(key));
    const fences = Object.fromEntries(fenced.map((key) => [key, lock.fencingTokenOf(key)]));
    const slots = Object.fromEntries(keys.filter(isPermit).map((key) => [key, lock.slotOf(key)]));
    this.#history.tell({ type: 'entered', ...of, fences, slots, believed: isBelieved() });
    assured();
    await nested();
    if (prolongs === true && workMs > STEP_MS) {
      await lock.ensureRemaining(2 * this.plan.leaseMs);
      assured();
    }
    for (let leftMs = workMs; leftMs > 0; leftMs -= STEP_MS) {
      await this.#sleep(Math.min(leftMs, STEP_MS));
      if (!isBelieved()) break;
      this.#history.tell({ type: 'effect', ...of });
      assured();
    }
    if (handOff !== undefined && isBelieved()) await this.#detach({ ...of, keys, handOff }, lock);
    else this.#history.tell({ type: 'left', ...of });
  }

  async #detach(
    { process, call, keys, handOff: { forMs, adopters } }: Detaching,
    lock: Lock,
  ): Promise<void> {
    this.#history.tell({ type: 'detaches', process, call, forMs });
    const text = await lock.detach({ forMs });
    const from = `${process}/${call}`;
    this.#history.tell({ type: 'detached', process, call, text: from });
    this.#pass({ text, from, keys, adopters });
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.machine.after(ms, resolve));
  }
}

const neutral = new AsyncLocalStorage<undefined>();

function clockOf(machine: Machine): Clock {
  const { time } = machine;
  return {
    now: () => time.now,
    wallNow: () => BEGINNING + time.now,
    after: (delayMs, fire): CancelTimer =>
      delayMs === Infinity ? () => {} : neutral.exit(() => machine.after(delayMs, fire)),
  };
}
