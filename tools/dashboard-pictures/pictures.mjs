/**
 * Takes pictures of the dashboard in several states: `node tools/dashboard-pictures/pictures.mjs <folder>`.
 *
 * The locks of other processes are written into Redis as these would have them; those of this one are real. The last
 * fifteen minutes are made up, because nobody wants to wait so long for a picture.
 */
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { findChromium, RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { LockDashboardModule } from 'nestjs-locked/dashboard';
import { chromium } from 'playwright-core';
import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import 'reflect-metadata';

const folder = process.argv[2] ?? '.';
mkdirSync(folder, { recursive: true });
os.hostname = () => 'app-1';
syncBuiltinESMExports();

const server = await RedisServer.start();
const redis = new Redis(server.url);
class Root {}
Module({
  imports: [
    RedisLockModule.forRoot({ connection: server.url, leaseMs: 30_000, waitMs: 120_000 }),
    LockDashboardModule.register({
      path: '/locks',
      authorize: () => ({ role: 'admin', name: 'anna' }),
    }),
  ],
})(Root);
const app = await NestFactory.create(Root, { logger: ['error'] });
await app.listen(0, '127.0.0.1');
const url = `${await app.getUrl()}/locks/`;
const locks = app.get(LockService);
const browser = await chromium.launch({
  executablePath: findChromium(),
  args: ['--no-sandbox'],
});

const wide = { width: 1280, height: 620 };
const phone = { width: 390, height: 844 };

await take('empty', wide);

const ended = [];
ended.push(
  await hold('order:7', 'OrderService.pay'),
  await hold('report:nightly', 'NightlyReport'),
);
await take('quiet', wide);

await busy(40);
await take('busy', wide, { open: 'stock:42' });
await take('busy-dark', wide, { open: 'stock:42', colorScheme: 'dark' });
await take('phone', phone, { open: 'stock:42' });
await take('release', wide, { open: 'stock:42', release: true });
await read('stock:11', 'ReportService.make', 5);
await take('readers', wide, { open: 'stock:11' });
await take('readers-release', wide, { open: 'stock:11', release: true });
await take('readers-phone', phone, { open: 'stock:11' });

await deadlocked(async () => {
  await take('deadlock', wide, { open: 'account:1' });
});
await deadlocked(async () => {
  await take('deadlock-phone', phone);
});

await lots(10_000);
const from = performance.now();
await take('10000-keys', wide);
console.log(`10,000 keys: the picture took ${Math.round(performance.now() - from)} ms`);
await take('filtered', wide, { filter: 'user:99*' });

await browser.close();
await Promise.all(ended.map((end) => end()));
await app.close();
redis.disconnect();
await server.stop();

/** Holds a lock of this process. @returns ends that */
async function hold(key, label) {
  const lock = await locks.acquire(key, { label });
  return () => lock.release();
}

/** Looks while two calls wait for each other, which they do for ten seconds. */
async function deadlocked(look) {
  const calls = Promise.allSettled([
    nested('account:1', 'account:2', 'TransferService.send'),
    nested('account:2', 'account:1', 'RefundService.refund'),
  ]);
  await sleep(2_000);
  await look();
  await calls;
}

function nested(first, second, label) {
  return locks.withLock(first, { label }, async () => {
    await sleep(100);
    await locks.withLock(second, { label }, () => {});
  });
}

/** Locks of other processes, some of them wanted. */
async function busy(count) {
  const calls = [
    'StockService.take',
    'OrderService.pay',
    'CartService.checkout',
    'InvoiceService.number',
  ];
  for (let i = 0; i < count; i++) {
    await other(`stock:${i + 10}`, calls[i % 4], i % 5, (i * 7_919) % 90_000);
  }
  await other('stock:42', 'StockService.take', 1, 133_000);
  for (let n = 0; n < 12; n++) await wait('stock:42', calls[n % 4], n, 9_500 - n * 700);
}

async function lots(count) {
  const pipeline = redis.pipeline();
  for (let i = 0; i < count; i++) {
    pipeline.set(`lock:{user:${i}}`, token(i % 8, 'ProfileService.save', i * 3), 'PX', 600_000);
  }
  await pipeline.exec();
}

async function other(key, label, process, agoMs) {
  await introduce(process);
  await redis.set(`lock:{${key}}`, token(process, label, agoMs), 'PX', 600_000 - (agoMs % 9_000));
}

/** As many processes that read the key. */
async function read(key, label, count) {
  const readers = [];
  for (let i = 0; i < count; i++) {
    await introduce(i);
    const reader = token(i, label, 70_000 + i).replace(`:${label}`, `s:${label}`);
    readers.push(`${Date.now() + 25_000}:${reader}`);
  }
  await redis.set(`lock:{${key}}`, `shared ${readers.join(' ')}`, 'PX', 25_000);
  await wait(key, 'StockService.correct', 7, 12_000);
}

async function wait(key, label, process, agoMs) {
  await introduce(process);
  const position = (Date.now() - agoMs) * 1_000;
  await redis.zadd(`lock:{${key}}:queue`, position, token(process, label, agoMs));
}

async function introduce(process) {
  const record = JSON.stringify({ host: `app-${(process % 6) + 2}`, pid: 4_700 + process });
  await redis.set(`lock:process:${idOf(process)}`, record, 'PX', 3_600_000);
}

function token(process, label, agoMs) {
  return `${idOf(process)}:${(Date.now() - agoMs) * 1_000}:${label}`;
}

function idOf(process) {
  return createHash('md5').update(String(process)).digest('hex');
}

async function take(name, viewport, { open, release, filter, colorScheme = 'light' } = {}) {
  const page = await browser.newPage({ viewport, colorScheme, deviceScaleFactor: 1 });
  page.on('console', (message) => console.log(`${name}: ${message.text()}`));
  page.on('pageerror', (error) => console.log(`${name}: ${error.message}`));
  await page.addInitScript(withHistory);
  await page.goto(url);
  if (filter !== undefined) await page.getByRole('searchbox').fill(filter);
  await page.locator('#shown:not(:empty)').waitFor();
  await sleep(filter === undefined ? 2_500 : 3_500);
  if (open !== undefined) {
    await page.locator('tbody button.key', { hasText: open }).first().click();
    await sleep(800);
  }
  if (release) await page.getByRole('button', { name: 'Release…' }).click();
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await page.close();
}

/** Runs in the page, before it. */
function withHistory() {
  const wave = (i, size) => size * (1 + Math.sin(i / 9) / 3 + Math.sin(i * 1.7) / 6);
  const before = (values, make) => values.map((value, i) => value ?? make(i));
  globalThis.EventSource = class extends globalThis.EventSource {
    addEventListener(type, listener) {
      super.addEventListener(type, (event) => {
        if (type !== 'look') return listener(event);
        const look = JSON.parse(event.data);
        const { history, totals } = look;
        history.held = before(history.held, (i) => Math.round(wave(i, totals?.held ?? 0)));
        history.waiting = before(history.waiting, (i) => Math.round(wave(i, totals?.waiting ?? 0)));
        history.oldestWaitMs = before(history.oldestWaitMs, (i) => wave(i, totals ? 4_000 : 0));
        history.losses = before(history.losses, () => 0);
        history.leastMarginMs = before(history.leastMarginMs, (i) => 19_900 - wave(i, 400));
        listener({ data: JSON.stringify(look) });
      });
    }
  };
}
