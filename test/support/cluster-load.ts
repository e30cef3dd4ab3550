import { expect } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { LockError, type LockErrorCode } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { afterTest } from './after-test.js';
import { eventually } from './eventually.js';

const CALLERS = 4;
const LONGEST_WORK_MS = 20;

/** The errors with which a call may end while servers fail. */
const EXPECTED: readonly LockErrorCode[] = ['LOCK_NOT_ACQUIRED', 'LOCK_STORE_FAILED', 'LOCK_LOST'];

/** Two callers that held a key at the same time. */
export interface Overlap {
  readonly key: string;
  readonly at: number;
}

/**
 * Records who enters and leaves each key, independently of the locks. Detects two callers inside at the same time, and
 * a caller with a lower fencing token than an earlier one.
 */
export class Register {
  readonly overlaps: Overlap[] = [];
  /** Fencing tokens that did not rise, for example `key: 7 after 9`. */
  readonly fallen: string[] = [];
  readonly entries = new Map<string, number>();
  readonly #inside = new Map<string, number>();
  readonly #highest = new Map<string, number>();

  enter(key: string, fencingToken: number): void {
    const inside = this.#inside.get(key) ?? 0;
    if (inside > 0) this.overlaps.push({ key, at: performance.now() });
    this.#inside.set(key, inside + 1);
    const highest = this.#highest.get(key) ?? 0;
    if (fencingToken <= highest) this.fallen.push(`${key}: ${fencingToken} after ${highest}`);
    this.#highest.set(key, Math.max(highest, fencingToken));
    this.entries.set(key, (this.entries.get(key) ?? 0) + 1);
  }

  leave(key: string): void {
    this.#inside.set(key, (this.#inside.get(key) ?? 0) - 1);
  }
}

/** Several lock services that constantly compete for the same keys. Ends with the test. */
export class ClusterLoad {
  readonly register = new Register();
  readonly #services: readonly LockEngine[];
  readonly #keys: readonly string[];
  readonly #holds: number[];
  readonly #unexpected: unknown[] = [];
  readonly #callers: Promise<void>[];
  #isOver = false;

  constructor(services: readonly LockEngine[], keys: readonly string[]) {
    this.#services = services;
    this.#keys = keys;
    this.#holds = services.map(() => 0);
    this.#callers = services.flatMap((_, index) =>
      Array.from({ length: CALLERS }, () => this.#call(index)),
    );
    afterTest(() => this.end());
  }

  get holds(): number {
    return this.#holds.reduce((sum, count) => sum + count);
  }

  /** Waits until every service and every key has had further holds. */
  async goesOn(limitMs = 30_000): Promise<void> {
    const holds = [...this.#holds];
    const entries = this.#keys.map((key) => this.register.entries.get(key) ?? 0);
    await eventually(() => {
      const stuck = this.#keys.filter(
        (key, i) => !((this.register.entries.get(key) ?? 0) > (entries[i] ?? 0)),
      );
      const idle = this.#services.filter(
        (_, i) => !((this.#holds[i] ?? 0) > (holds[i] ?? 0) + CALLERS),
      );
      expect({ stuck, idle: idle.length }).toEqual({ stuck: [], idle: 0 });
    }, limitMs);
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#callers);
    expect(this.#unexpected).toEqual([]);
  }

  async #call(service: number): Promise<void> {
    const engine = this.#services[service] as LockEngine;
    while (!this.#isOver) {
      const key = this.#keys[Math.floor(Math.random() * this.#keys.length)] as string;
      try {
        const lock = await engine.acquire(key, { waitMs: 3_000 });
        this.register.enter(key, lock.fencingToken);
        await sleep(Math.random() * LONGEST_WORK_MS, undefined, { signal: lock.signal }).catch(
          () => {},
        );
        this.register.leave(key);
        this.#holds[service] = (this.#holds[service] ?? 0) + 1;
        await lock.release();
      } catch (error) {
        if (!(error instanceof LockError && EXPECTED.includes(error.code)))
          this.#unexpected.push(error);
        await sleep(20);
      }
    }
  }
}
