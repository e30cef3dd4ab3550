import { AsyncLocalStorage } from 'node:async_hooks';
import { LockEngine } from '../../../../libs/nestjs-locked/dist/modules/core/engine/lock-engine.js';
import type { Lock } from '../../../../libs/nestjs-locked/dist/modules/core/lock.js';
import type { LockOptions } from '../../../../libs/nestjs-locked/dist/modules/core/lock.options.js';
import { resolveServiceOptions } from '../../../../libs/nestjs-locked/dist/modules/core/resolved.options.js';
import type {
  CancelTimer,
  Clock,
} from '../../../../libs/nestjs-locked/dist/modules/core/time/clock.js';
import { RedisLockStore } from '../../../../libs/nestjs-locked/dist/modules/redis/redis-lock-store.js';
import type { History } from '../history.js';
import type { Machine } from '../network/machine.js';
import type { ServerHost } from '../network/server-host.js';
import { SimulatedClient } from '../network/simulated-connection.js';
import type { PlannedCall, PlannedProcess } from '../plan.js';
import { BEGINNING } from '../world/virtual-node.js';

/** How long a step of the work takes, at most: it looks whether it still holds the lock at each. */
const STEP_MS = 25;

/** A process of an application: one lock service, and its callers. */
export class SimulatedProcess {
  readonly client: SimulatedClient;
  readonly #engine: LockEngine;
  readonly #history: History;
  #isClosing = false;
  #isOpen = false;

  constructor(
    readonly machine: Machine,
    server: ServerHost,
    history: History,
    readonly plan: PlannedProcess,
  ) {
    this.#history = history;
    const { leaseMs, lingerMs, localHandovers, fenceKeepMs } = plan;
    this.client = new SimulatedClient(machine, server);
    const clock = clockOf(machine);
    const store = new RedisLockStore({
      client: this.client,
      clock,
      keyPrefix: 'lock:',
      leaseMs,
      ...(fenceKeepMs === undefined ? {} : { fenceKeepMs }),
      closeClient: async () => {},
    });
    const options = resolveServiceOptions({
      leaseMs,
      lingerMs,
      ...(localHandovers === undefined ? {} : { localHandovers }),
    });
    this.#engine = new LockEngine({
      store,
      options,
      clock,
      random: () => machine.random.next(),
      report: () => {},
    });
  }

  /** Connects, and makes the planned calls. */
  start(): void {
    const opened = this.#engine.open().then(
      () => (this.#isOpen = true),
      (error: unknown) => {
        this.#engine.openLater(error as Parameters<LockEngine['openLater']>[0]);
        return false;
      },
    );
    for (const call of this.plan.calls) {
      this.machine.after(call.atMs, () => void opened.then(() => this.call(call)));
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
    const { name: call, keys, waitMs, keepMs, mode, maxHoldMs } = planned;
    const of = { process: this.machine.name, call };
    const { leaseMs } = this.plan;
    const wanted = {
      keys,
      waitMs,
      leaseMs,
      ...(keepMs !== undefined && { keepMs }),
      ...(mode !== undefined && { mode }),
    };
    this.#history.tell({ type: 'called', ...of, ...wanted });
    try {
      const isDone = await this.#make(planned);
      this.#history.tell({ type: 'ended', ...of, outcome: isDone ? 'done' : 'busy' });
    } catch (error) {
      const { code = '', message } = error as { code?: string; message: string };
      // A lock that is not renewed, or may not last, ends while the work goes on, as it was told.
      const isLimited = planned.kind === 'fixed' || maxHoldMs !== undefined;
      const isForeseen = isLimited && code === 'LOCK_LOST';
      const outcome = isForeseen
        ? 'done'
        : code === 'LOCK_NOT_ACQUIRED'
          ? 'busy'
          : code === 'LOCK_ABORTED'
            ? 'aborted'
            : 'failed';
      this.#history.tell({ type: 'ended', ...of, outcome, error: `${code}: ${message}` });
    }
  }

  /** @returns false if somebody else holds the lock */
  async #make(planned: PlannedCall): Promise<boolean> {
    const { kind, keys, waitMs, abortMs, keepMs, label, mode, nestedReads, maxHoldMs } = planned;
    const engine = this.#engine;
    const options: LockOptions = {
      waitMs,
      ...(label !== undefined && { label }),
      ...(mode !== undefined && { mode }),
      ...(maxHoldMs !== undefined && { maxHoldMs }),
    };
    const inner: LockOptions = { ...options, ...(nestedReads === true && { mode: 'shared' }) };
    const work = (lock: Lock): Promise<void> => this.#work(planned, lock);
    switch (kind) {
      case 'withLock':
      case 'several':
        await engine.withLock(keys, options, work);
        return true;
      case 'nested':
        await engine.withLock(keys, options, async (lock) => {
          await engine.withLock(keys, inner, () => this.#sleep(STEP_MS));
          await work(lock);
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
        const lock = await engine.tryAcquire(keys, mode === undefined ? {} : { mode });
        if (lock !== null) await this.#workAndRelease(planned, lock);
        return lock !== null;
      }
    }
  }

  async #workAndRelease(planned: PlannedCall, lock: Lock): Promise<void> {
    try {
      await this.#work(planned, lock);
    } finally {
      await lock.release();
    }
  }

  async #work({ name: call, keys, workMs, prolongs }: PlannedCall, lock: Lock): Promise<void> {
    const of = { process: this.machine.name, call };
    const isBelieved = (): boolean => lock.isHeld && !lock.signal.aborted;
    const assured = (): void => {
      const until = this.machine.time.now + lock.remainingMs();
      this.#history.tell({ type: 'assured', ...of, until });
    };
    const fences = Object.fromEntries(keys.map((key) => [key, lock.fencingTokenOf(key)]));
    this.#history.tell({ type: 'entered', ...of, fences, believed: isBelieved() });
    assured();
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
    this.#history.tell({ type: 'left', ...of });
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
