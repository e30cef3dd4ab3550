/**
 * Measures what locks and starting processes cost the CPU of a server, and what a message costs the nodes of a Redis
 * Cluster. The time of the processor is read from the servers themselves, so a machine that has other things to do
 * changes it little.
 */
import { RedisCluster, RedisServer } from 'dev-servers';
import type { RedisConnectionOptions } from 'nestjs-locked';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type OpenLockService, openLockService } from '../adapters/lock-service.js';
import { describeMachine } from '../machine.js';
import { ServerStatistics } from '../measure/server-statistics.js';
import { spreadOf } from '../measure/statistics.js';

const LOCKS = 30_000;
const MESSAGES = 100_000;
const CHANNEL = 'lock:inbox:0123456789abcdef0123456789abcdef';
const SETTINGS = { localHandovers: 0, waitMs: 60_000 };

process.setMaxListeners(0); // each application listens to signals

/** @returns what results/growth.json holds: the medians of all rounds. All costs are microseconds of one core */
export function measureCosts() {
  return onServer([], async (server, { url }) => {
    const round = async () => ({
      ...(await costsOfLocks(server, url)),
      ...(await costsOfMessages()),
    });
    const rounds = [await round(), await round(), await round()] as const;
    const { processor, load, redis } = describeMachine(await server.version());
    const names = Object.keys(rounds[0]) as (keyof (typeof rounds)[0])[];
    return {
      date: new Date().toISOString().slice(0, 10),
      processor,
      load: inCents(load),
      redis,
      ...Object.fromEntries(names.map((name) => [name, median(rounds.map((it) => it[name]))])),
    };
  });
}

/** What a process costs when it starts or connects again, and what a lock costs, with and without TLS. */
export function measureStarts() {
  const port = 29_000 + Math.floor(Math.random() * 3_000);
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) =>
    fileURLToPath(new URL(`../../../../test/fixtures/tls/${name}`, import.meta.url)),
  ) as [string, string];
  const args = [
    ...['--tls-port', String(port), '--tls-auth-clients', 'no'],
    ...['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert],
  ];
  return onServer(args, async (server, { url }) => {
    const tls = { host: 'localhost', port, tls: { ca: readFileSync(cert) } };
    return { plain: await costsOfStart(server, url), tls: await costsOfStart(server, tls) };
  });
}

async function onServer<T>(
  args: readonly string[],
  act: (server: ServerStatistics, redis: RedisServer) => Promise<T>,
): Promise<T> {
  const redis = await RedisServer.start({ args });
  const server = new ServerStatistics(redis.url);
  try {
    return await act(server, redis);
  } finally {
    server.close();
    await redis.stop();
  }
}

async function costsOfStart(server: ServerStatistics, connection: RedisConnectionOptions) {
  await onServices(1, connection, async () => {}); // the server knows the scripts from now on
  const before = await server.cpuUs();
  return onServices(100, connection, async (services) => {
    const startUs = Math.round(((await server.cpuUs()) - before) / services.length);
    const keyOf = (process: number): string => `key ${process}`;
    return { startUs, lockUs: (await costOfLock(server, services.slice(0, 32), 1, keyOf)).us };
  });
}

async function costsOfLocks(server: ServerStatistics, url: string) {
  const free = (processes: number, callers: number): Promise<number> =>
    onServices(processes, url, async (services) => {
      const keyOf = (process: number, caller: number): string => `key ${process} ${caller}`;
      return (await costOfLock(server, services, callers, keyOf)).us;
    });
  const keyOfEight = (process: number): string => `key ${process % 4}`;
  const contended = await onServices(32, url, (services) =>
    costOfLock(server, services, 1, keyOfEight),
  );
  return {
    /** One connection, one command at a time: the server wakes up for each. */
    freeLockAloneUs: await free(1, 1),
    /** One process with much to do: its commands arrive in batches. */
    freeLockBatchedUs: await free(1, 64),
    /** Many processes, each with little to do: many connections are read in one turn of the server. */
    freeLockUs: await free(32, 1),
    contendedLockUs: contended.us,
    messagesPerContendedLock: contended.messages,
  };
}

/** Each service is a "process" with two connections. */
async function onServices<T>(
  count: number,
  connection: RedisConnectionOptions,
  act: (services: OpenLockService[]) => Promise<T>,
): Promise<T> {
  const open = Array.from({ length: count }, () => openLockService(connection, SETTINGS));
  const services = await Promise.all(open);
  try {
    return await act(services);
  } finally {
    await Promise.all(services.map((service) => service.close()));
  }
}

async function costOfLock(
  server: ServerStatistics,
  services: readonly OpenLockService[],
  callers: number,
  keyOf: (process: number, caller: number) => string,
): Promise<{ readonly us: number; readonly messages: number }> {
  const each = Math.ceil(LOCKS / services.length / callers);
  const run = (times: number): Promise<unknown> =>
    Promise.all(
      services.flatMap(({ locks }, process) =>
        Array.from({ length: callers }, async (_, caller) => {
          for (let n = 0; n < times; n += 1) {
            const lock = await locks.acquire(keyOf(process, caller));
            await lock.release();
          }
        }),
      ),
    );
  await run(Math.ceil(each / 10));
  const before = { us: await server.cpuUs(), messages: await publishes(server) };
  await run(each);
  const locks = each * services.length * callers;
  return {
    us: inCents(((await server.cpuUs()) - before.us) / locks),
    messages: inCents(((await publishes(server)) - before.messages) / locks),
  };
}

async function publishes(server: ServerStatistics): Promise<number> {
  return (await server.commands()).get('publish')?.calls ?? 0;
}

/** Clusters of three, six and nine nodes: what a message costs its master for each further node, and that node. */
async function costsOfMessages() {
  const points = [];
  for (const replicasPerMaster of [0, 1, 2]) {
    const cluster = await RedisCluster.start({ replicasPerMaster });
    const nodes = cluster.nodes.map(({ url }) => new ServerStatistics(url));
    try {
      points.push(await costOfMessage(nodes as [ServerStatistics, ...ServerStatistics[]]));
    } finally {
      for (const node of nodes) node.close();
      await cluster.stop();
    }
  }
  return {
    messageToItsMasterPerNodeUs: median(points.map(({ publisher, others }) => publisher / others)),
    messageToOtherNodeUs: median(points.map(({ other }) => other)),
    messageToListeningNodeUs: median(points.map(({ listening }) => listening)),
  };
}

async function costOfMessage(nodes: [ServerStatistics, ...ServerStatistics[]]) {
  const listener = nodes.at(-1)?.redis.duplicate();
  await listener?.subscribe(CHANNEL);
  const idle = await costOf(nodes, `redis.call('PING')`);
  const busy = await costOf(nodes, `redis.call('PUBLISH', '${CHANNEL}', 'g x 30000')`);
  listener?.disconnect();
  const [publisher, ...others] = busy.map((us, node) => us - (idle[node] ?? NaN));
  return {
    others: others.length,
    publisher: publisher ?? NaN,
    other: median(others.slice(0, -1)),
    listening: others.at(-1) ?? NaN,
  };
}

/** What each node spends on the command, which is sent to the first of them. */
async function costOf(nodes: [ServerStatistics, ...ServerStatistics[]], command: string) {
  const cpu = (): Promise<number[]> => Promise.all(nodes.map((node) => node.cpuUs()));
  const before = await cpu();
  const lua = `for n = 1, 100 do ${command} end`;
  for (let sent = 0; sent < MESSAGES; sent += 100) await nodes[0].redis.eval(lua, 0);
  // The bus is read in order: what was sent before an answer has been read by then.
  for (let turn = 0; turn < 20; turn += 1) {
    await Promise.all(nodes.map((node) => node.redis.ping()));
    await sleep(25);
  }
  return (await cpu()).map((us, node) => (us - (before[node] ?? NaN)) / MESSAGES);
}

function median(values: readonly number[]): number {
  return inCents(spreadOf(values).median);
}

function inCents(us: number): number {
  return Math.round(us * 100) / 100;
}
