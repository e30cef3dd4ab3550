/**
 * Measures what a lock costs the CPU of a server, and what a message costs the nodes of a Redis Cluster. The time of
 * the processor is read from the servers themselves, so a machine that has other things to do changes it little.
 */
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisCluster, RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { LockService, RedisLockModule } from 'nestjs-locked';
import { cpus, loadavg } from 'node:os';

import 'reflect-metadata';

const ROUNDS = 3;
const LOCKS = 30_000;
const MESSAGES = 100_000;
const CHANNEL = 'lock:inbox:0123456789abcdef0123456789abcdef';

/** @returns what `measured.json` holds: the medians of all rounds. All costs are microseconds of one core */
export async function measure() {
  const server = await RedisServer.start();
  const admin = new Redis(server.url);
  try {
    const [, redis] = /redis_version:(\S+)/.exec(await admin.info('server'));
    const rounds = [];
    for (let n = 0; n < ROUNDS; n++) {
      rounds.push({ ...(await measureLocks(server, admin)), ...(await measureBus()) });
    }
    const names = Object.keys(rounds[0]);
    return {
      date: new Date().toISOString().slice(0, 10),
      processor: cpus()[0].model,
      load: round(loadavg()[0]),
      redis,
      ...Object.fromEntries(names.map((name) => [name, median(rounds.map((it) => it[name]))])),
    };
  } finally {
    admin.disconnect();
    await server.stop();
  }
}

async function measureLocks(server, admin) {
  return {
    /** One connection, one command at a time: the server wakes up for each. */
    freeLockAloneUs: await costOfLocks(server, admin, { processes: 1, callers: 1, shared: false }),
    /** One process with much to do: its commands arrive in batches. */
    freeLockBatchedUs: await costOfLocks(server, admin, {
      processes: 1,
      callers: 64,
      shared: false,
    }),
    /** Many processes, each with little to do: many connections are read in one turn of the server. */
    freeLockUs: await costOfLocks(server, admin, { processes: 32, callers: 1, shared: false }),
    ...(await costOfContention(server, admin)),
  };
}

async function costOfContention(server, admin) {
  const before = await publishesOf(admin);
  const contendedLockUs = await costOfLocks(server, admin, {
    processes: 32,
    callers: 1,
    shared: true,
  });
  const messages = (await publishesOf(admin)) - before;
  return { contendedLockUs, messagesPerContendedLock: round(messages / LOCKS) };
}

/** Each "process" is a lock service of its own, with two connections; eight of them want the same key if `shared`. */
async function costOfLocks(server, admin, { processes, callers, shared }) {
  const apps = await Promise.all(Array.from({ length: processes }, () => openApp(server.url)));
  try {
    const services = apps.map((app) => app.get(LockService));
    const each = Math.ceil(LOCKS / processes / callers);
    const run = (times) =>
      Promise.all(
        services.flatMap((locks, process) =>
          Array.from({ length: callers }, async (_, caller) => {
            const key = shared ? `key ${process % 4}` : `key ${process} ${caller}`;
            for (let n = 0; n < times; n++) {
              const lock = await locks.acquire(key);
              await lock.release();
            }
          }),
        ),
      );
    if (!shared) await run(Math.ceil(each / 10)); // what is counted besides would be wrong otherwise
    const before = await cpuOf(admin);
    await run(each);
    return round(((await cpuOf(admin)) - before) / (each * processes * callers));
  } finally {
    await Promise.all(apps.map((app) => app.close()));
  }
}

function openApp(url) {
  class App {}
  const locks = { connection: url, localHandovers: 0, waitMs: 60_000 };
  Module({ imports: [RedisLockModule.forRoot(locks)] })(App);
  return NestFactory.createApplicationContext(App, { logger: ['error'] });
}

/** Clusters of three, six and nine nodes: what a message costs its master for each further node, and that node. */
async function measureBus() {
  const points = [];
  for (const replicasPerMaster of [0, 1, 2]) {
    const cluster = await RedisCluster.start({ replicasPerMaster });
    const nodes = cluster.nodes.map(({ url }) => new Redis(url));
    try {
      points.push(await costOfMessages(nodes));
    } finally {
      for (const node of nodes) node.disconnect();
      await cluster.stop();
    }
  }
  return {
    messageToItsMasterPerNodeUs: median(points.map(({ publisher, others }) => publisher / others)),
    messageToOtherNodeUs: median(points.map(({ other }) => other)),
    messageToListeningNodeUs: median(points.map(({ listening }) => listening)),
  };
}

async function costOfMessages([publisher, ...others]) {
  const listener = others.at(-1).duplicate();
  await listener.subscribe(CHANNEL);
  const idle = await costOf(publisher, others, `redis.call('PING')`);
  const busy = await costOf(publisher, others, `redis.call('PUBLISH', '${CHANNEL}', 'g x 30000')`);
  listener.disconnect();
  return {
    others: others.length,
    publisher: busy.publisher - idle.publisher,
    other: busy.other - idle.other,
    listening: busy.listening - idle.listening,
  };
}

async function costOf(publisher, others, command) {
  const lua = `for n = 1, 100 do ${command} end`;
  const nodes = [publisher, ...others];
  const before = await Promise.all(nodes.map(cpuOf));
  for (let sent = 0; sent < MESSAGES; sent += 100) await publisher.eval(lua, 0);
  await allArrived(others);
  const after = await Promise.all(nodes.map(cpuOf));
  const [own, ...theirs] = after.map((us, node) => (us - before[node]) / MESSAGES);
  return { publisher: own, other: median(theirs.slice(0, -1)), listening: theirs.at(-1) };
}

/** The bus is read in order: what was sent before an answer has been read by then. */
async function allArrived(others) {
  for (let turn = 0; turn < 20; turn++) {
    await Promise.all(others.map((node) => node.ping()));
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

async function cpuOf(redis) {
  const info = await redis.info('cpu');
  const seconds = ['sys', 'user'].map(
    (kind) => +new RegExp(`used_cpu_${kind}:(\\S+)`).exec(info)[1],
  );
  return (seconds[0] + seconds[1]) * 1e6;
}

async function publishesOf(redis) {
  const info = await redis.info('commandstats');
  return Number(/cmdstat_publish:calls=(\d+)/.exec(info)?.[1] ?? 0);
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  return round(sorted[Math.floor((sorted.length - 1) / 2)]);
}

function round(us) {
  return Math.round(us * 100) / 100;
}
