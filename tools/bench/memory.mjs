/**
 * How many bytes of Redis a held lock, a waiter, and the fencing number that stays behind take:
 *
 *     npm run bench:memory
 *
 * A Redis of our own gets thousands of locks, and tells how much more of its memory is used then. It has other keys
 * from the start, so that its tables of keys, which double now and then, keep their size meanwhile. What they take is
 * not counted: for each key 16 to 32 bytes, because every key of ours expires and so stands in two tables.
 */
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { setTimeout as pause } from 'node:timers/promises';

import 'reflect-metadata';

const KEYS = 4_000;
const OTHER_KEYS = 40_000;
const SIZES = [8, 36];
/** Nothing ends, and nothing is renewed, while it is measured. */
const LONG = { waitMs: 600_000, leaseMs: 600_000, maxHoldMs: 3_600_000 };

const server = await RedisServer.start();
const admin = new Redis(server.url);
const [holder, waiter] = await Promise.all([openApp(), openApp()]);

try {
  const rows = [];
  for (const size of SIZES) rows.push(...(await measure(size)));
  const [, version] = /redis_version:(\S+)/.exec(await admin.info('server'));
  console.log(`Redis ${version}, ${KEYS} keys of each kind, bytes for each key\n`);
  console.log('| name of the key | what | bytes |\n| --- | --- | --- |');
  for (const { size, what, bytes } of rows) console.log(`| ${size} bytes | ${what} | ${bytes} |`);
} finally {
  await Promise.all([holder, waiter].map((app) => app.close()));
  admin.disconnect();
  await server.stop();
}

async function measure(size) {
  await admin.flushall();
  const fill = `for n = 1, ${OTHER_KEYS} do redis.call('SET', 'other:' .. n, n, 'PX', 36e5) end`;
  await admin.eval(fill, 0);
  const names = Array.from({ length: KEYS }, (_, n) => `${n}:`.padEnd(size, 'x'));
  const empty = await usedMemory();
  const first = await Promise.all(names.map((name) => acquireBy(holder, name)));
  const held = await usedMemory();
  await Promise.all(first.map((lock) => lock.release()));
  const released = await usedMemory();

  const second = await Promise.all(names.map((name) => acquireBy(holder, name)));
  const heldAgain = await usedMemory();
  const waits = names.map((name) => acquireBy(waiter, name));
  while ((await admin.zcard(`lock:{${names.at(-1)}}:queue`)) === 0) await pause(20);
  const waitedFor = await usedMemory();
  await Promise.all(second.map((lock) => lock.release()));
  for (const lock of await Promise.all(waits)) await lock.release();
  const afterWaiting = await usedMemory();

  const each = (bytes) => Math.round(bytes / KEYS);
  return [
    { size, what: 'held lock, with its fencing number', bytes: each(held - empty) },
    { size, what: 'a process that waits for it', bytes: each(waitedFor - heldAgain) },
    { size, what: 'fencing number after the release', bytes: each(released - empty) },
    { size, what: 'the same, if others have waited', bytes: each(afterWaiting - empty) },
  ];
}

function acquireBy(app, name) {
  return app.get(LockService).acquire(name, LONG);
}

/** What Redis uses, once that does not change any more. */
async function usedMemory() {
  let before;
  for (;;) {
    await pause(500);
    const [, used] = /used_memory:(\d+)/.exec(await admin.info('memory'));
    if (used === before) return Number(used);
    before = used;
  }
}

async function openApp() {
  class Root {}
  Module({ imports: [RedisLockModule.forRoot({ connection: server.url })] })(Root);
  return NestFactory.createApplicationContext(Root, { logger: false });
}
