/**
 * Measures what a process costs the CPU of a server when it starts or connects again, and what a lock costs, with and
 * without TLS: ratios, on a machine that has other things to do.
 */
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import 'reflect-metadata';

const PROCESSES = 100;
const LOCKS = 10_000;
const certificate = (name) =>
  fileURLToPath(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url));

/** All costs are microseconds of one core of the server. */
export async function measureStarts() {
  const port = 29_000 + Math.floor(Math.random() * 3_000);
  const server = await RedisServer.start({
    args: [
      ...['--tls-port', String(port), '--tls-auth-clients', 'no'],
      ...['--tls-cert-file', certificate('cert.pem'), '--tls-key-file', certificate('key.pem')],
      ...['--tls-ca-cert-file', certificate('cert.pem')],
    ],
  });
  const admin = new Redis(server.url);
  try {
    const ca = readFileSync(certificate('cert.pem'));
    const plain = await costs(admin, server.url);
    const tls = await costs(admin, { host: 'localhost', port, tls: { ca } });
    return { plain, tls };
  } finally {
    admin.disconnect();
    await server.stop();
  }
}

async function costs(admin, connection) {
  await (await open(connection)).close(); // the server knows the scripts from now on
  const before = await cpuOf(admin);
  const apps = await Promise.all(Array.from({ length: PROCESSES }, () => open(connection)));
  const started = await cpuOf(admin);
  const services = apps.slice(0, 32).map((app) => app.get(LockService));
  const run = () =>
    Promise.all(
      services.map(async (locks, n) => {
        for (let i = 0; i < LOCKS / services.length; i++)
          await (await locks.acquire(`key ${n}`)).release();
      }),
    );
  await run();
  const from = await cpuOf(admin);
  await run();
  const lockUs = Math.round((await cpuOf(admin)) - from) / LOCKS;
  await Promise.all(apps.map((app) => app.close()));
  return { startUs: Math.round((started - before) / PROCESSES), lockUs };
}

function open(connection) {
  class App {}
  Module({ imports: [RedisLockModule.forRoot({ connection })] })(App);
  return NestFactory.createApplicationContext(App, { logger: ['error'] });
}

async function cpuOf(redis) {
  const info = await redis.info('cpu');
  const seconds = ['sys', 'user'].map(
    (kind) => +new RegExp(`used_cpu_${kind}:(\\S+)`).exec(info)[1],
  );
  return (seconds[0] + seconds[1]) * 1e6;
}
