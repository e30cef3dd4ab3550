import { channel, tracingChannel } from 'node:diagnostics_channel';

/** From the request of a lock to the answer: a message for each call. */
export const ACQUIRE = tracingChannel('nestjs-locked:acquire');

/** From the beginning of a hold to its release: a message for each lock that a call has acquired itself. */
export const HOLD = tracingChannel('nestjs-locked:hold');

/** Everything else: a message for each `LockEvent`. */
export const EVENTS = channel('nestjs-locked:event');
