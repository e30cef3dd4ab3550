import type { Lock, LockServiceOptions } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { type OpenLockService, openLockService } from '../adapters/lock-service.js';

const AT_ONCE = 500;
const WAIT_MS = 600_000;

let service: OpenLockService | undefined;
let held: Lock[] = [];
let waiting: Promise<unknown> = Promise.resolve();

/** Tasks with very many locks of ours. They share one lock service, which the first of them opens. */
export const SCALE_TASKS = {
  async openService({ url, ...options }: LockServiceOptions & { readonly url: string }) {
    service = await openLockService(url, { waitMs: WAIT_MS, ...options });
    // What is compiled or allocated once is not to be counted as part of the locks.
    await takeAndRelease('warm-up', 2_000);
  },

  /** Takes and keeps these keys. */
  async takeMany({ keys }: { readonly keys: readonly string[] }) {
    for (let from = 0; from < keys.length; from += AT_ONCE) {
      const some = keys.slice(from, from + AT_ONCE);
      held.push(...(await Promise.all(some.map((key) => locks().acquire(key)))));
    }
  },

  /** @returns how many of the keys were still held */
  async releaseMany(): Promise<number> {
    let kept = 0;
    for (let from = 0; from < held.length; from += AT_ONCE) {
      const released = await Promise.all(
        held.slice(from, from + AT_ONCE).map((lock) => lock.release()),
      );
      kept += released.filter(Boolean).length;
    }
    held = [];
    return kept;
  },

  /** A caller for each of these asks for the key, and releases it as soon as it gets it. */
  async startWaiting({ keys }: { readonly keys: readonly string[] }) {
    const wait = async (key: string): Promise<void> => {
      const lock = await locks().acquire(key);
      await lock.release();
    };
    waiting = Promise.all(keys.map(wait));
    waiting.catch(() => {}); // `allServed` reports it
  },

  async allServed(): Promise<void> {
    await waiting;
    waiting = Promise.resolve();
  },

  takeAndReleaseMany({ prefix, count }: { readonly prefix: string; readonly count: number }) {
    return takeAndRelease(prefix, count);
  },

  /** What this process keeps, when everything has been collected that can be. */
  async footprint() {
    globalThis.gc?.();
    globalThis.gc?.();
    return {
      heapBytes: process.memoryUsage().heapUsed,
      timers: process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length,
    };
  },

  /** @returns the CPU time that this process uses meanwhile, in milliseconds */
  async idle({ ms }: { readonly ms: number }): Promise<number> {
    const before = process.cpuUsage();
    await sleep(ms);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  },
};

async function takeAndRelease(prefix: string, count: number): Promise<void> {
  let next = 0;
  const caller = async (): Promise<void> => {
    while (next < count) {
      const lock = await locks().acquire(`${prefix}:${(next += 1)}`);
      await lock.release();
    }
  };
  await Promise.all(Array.from({ length: 64 }, caller));
}

function locks(): OpenLockService['locks'] {
  if (service === undefined) throw new Error('The lock service of this process is not open');
  return service.locks;
}
