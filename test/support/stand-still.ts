import { Socket } from 'node:net';
import { afterTest } from './after-test.js';

/**
 * Blocks the whole process without using the processor, as if it were stopped. When it is called in the callback of a
 * timer, Node then reads sockets before it fires further timers.
 */
export function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

type Method = (this: unknown, ...event: unknown[]) => unknown;

/** The server has handled every new connection before this process begins to use it. */
export function standStillWhenConnected(): void {
  const methods = Socket.prototype as unknown as Record<'emit', Method>;
  const original = methods.emit;
  methods.emit = function (...event) {
    if (event[0] === 'connect') standStill(20);
    return Reflect.apply(original, this, event);
  };
  afterTest(() => void (methods.emit = original));
}
