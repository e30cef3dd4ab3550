import type { Lock } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { type OpenLockService, openLockService } from '../adapters/lock-service.js';
import { type Footprint, footprint } from './footprint.js';

const AT_ONCE = 500;
const WAIT_MS = 600_000;

let service: OpenLockService | undefined;
let held: Lock[] = [];
let waiting: Promise<unknown> = Promise.resolve();

/** Tasks with very many locks of ours. They share one lock service, which the first of them opens. */
export const SCALE_TASKS = {
  async openService({ url, leaseMs }: { readonly url: string; readonly leaseMs: number }) {
    service = await openLockService(url, { leaseMs, waitMs: WAIT_MS });
    // What is compiled or allocated once is not to be counted as part of the locks.
    await takeAndRelease('warm-up', 2_000);
  },

  /** Takes and keeps so many keys. */
  async takeMany({ prefix, count }: { readonly prefix: string; readonly count: number }) {
    for (let from = 0; from < count; from += AT_ONCE) {
      const size = Math.min(AT_ONCE, count - from);
      const names = Array.from({ length: size }, (_, n) => `${prefix}:${from + n}`);
      held.push(...(await Promise.all(names.map((name) => locks().acquire(name)))));
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

  /** So many callers ask for a key, and release it as soon as they get it. */
  async startWaiting({ key, count }: { readonly key: string; readonly count: number }) {
    const wait = async (): Promise<void> => {
      const lock = await locks().acquire(key);
      await lock.release();
    };
    waiting = Promise.all(Array.from({ length: count }, wait));
    waiting.catch(() => {}); // `allServed` reports it
  },

  async allServed(): Promise<void> {
    await waiting;
    waiting = Promise.resolve();
  },

  takeAndReleaseMany({ prefix, count }: { readonly prefix: string; readonly count: number }) {
    return takeAndRelease(prefix, count);
  },

  async footprint(): Promise<Footprint> {
    return footprint();
  },

  /** @returns the CPU time that this process uses meanwhile, in milliseconds */
  async idle({ ms }: { readonly ms: number }): Promise<number> {
    const before = process.cpuUsage();
    await sleep(ms);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  },

  async closeService(): Promise<void> {
    await service?.close();
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
