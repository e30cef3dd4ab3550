/**
 * Replaces what is different in every run of Node, before the library is loaded: the clocks, the turns of the event
 * loop, and randomness. A process that has imported this module can run simulated worlds, one after the other, and
 * nothing else.
 */
import { SeededRandom } from 'kit';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import timers from 'node:timers/promises';
import { VirtualTime } from './virtual-time.js';

/** The date on which every history begins, in milliseconds since 1970. */
export const BEGINNING = Date.UTC(2026, 0, 1);

let time = new VirtualTime();
let random = new SeededRandom(0);

/** Begins a world. What is left of the world before must not run any more. */
export function beginWorld(newTime: VirtualTime, seed: number): void {
  time = newTime;
  random = new SeededRandom(seed);
}

const randomBytes = (size: number): Buffer =>
  Buffer.from(Array.from({ length: size }, () => random.between(0, 255)));

performance.now = () => time.now;
Date.now = () => BEGINNING + Math.floor(time.now);
Math.random = () => random.next();
globalThis.setImmediate = ((run: (...args: unknown[]) => void, ...args: unknown[]) =>
  time.nextTurn(() => run(...args))) as unknown as typeof setImmediate;
Object.assign(timers, {
  setImmediate: (value: unknown) => new Promise((resolve) => time.nextTurn(() => resolve(value))),
});
Object.assign(crypto, { randomBytes, randomUUID: () => randomBytes(16).toString('hex') });
Object.defineProperty(process, 'pid', { value: 1 });
Object.assign(os, { hostname: () => 'simulated' });
syncBuiltinESMExports();
