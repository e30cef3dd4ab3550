/**
 * A Nest application that campaigns for a key. While it leads, it appends lines to a file, the register, which all
 * processes share: each only after it has made sure that it leads. It stops itself on the message 'pause', so that it
 * is never stopped between the two.
 *
 * Arguments: the URL of Redis, the key, the lease, the register, and the name of this process in it.
 */
import { NestFactory } from '@nestjs/core';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import 'reflect-metadata';

const [redisUrl, key, leaseMs, register, by] = process.argv.slice(2);

const application = await NestFactory.createApplicationContext(
  RedisLockModule.forRoot({ connection: redisUrl, leaseMs: Number(leaseMs) }),
  { logger: false, abortOnError: false },
);
application.enableShutdownHooks();

/** @param {object} line */
const append = (line) =>
  appendFileSync(register, `${JSON.stringify({ by, at: now(), ...line })}\n`);

subscribe('nestjs-locked:event', (message) => {
  const { event } = /** @type {import('nestjs-locked').LockEventMessage} */ (message);
  if (event.type === 'deposed') append({ what: 'deposed', reason: event.reason });
});

const leadership = application.get(LockService).lead(key, async (signal, lock) => {
  const token = lock.fencingToken;
  append({ what: 'elected', token });
  signal.addEventListener('abort', () => append({ what: 'aborted', code: signal.reason.code }));
  while (!signal.aborted) {
    if (leadership.isLeader) append({ what: 'work', token });
    await sleep(5);
  }
});

process.on('message', () => process.kill(process.pid, 'SIGSTOP'));
process.on('disconnect', () => process.exit());
process.send?.('ready');

/** As `sharedNow` of the tests. */
function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}
