import { type INestApplicationContext, Inject, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Cluster, Redis } from 'ioredis';
import {
  InjectLockService,
  LockService,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { monotonicMs } from '../history/monotonic-ms.js';
import { openClient, type RedisAddress } from '../servers/redis-address.js';
import type { Recorder, ServiceTerms } from './recorder.js';
import type { ServiceTask, WorkerTask } from './task.js';

export const WAIT_MS = 20_000;
const MAX_HOLD_MS = 60_000;
/** The name of the second service of every worker. */
export const SECOND_SERVICE = 'second';

class Services {
  constructor(
    @Inject(LockService) readonly first: LockService,
    @InjectLockService(SECOND_SERVICE) readonly second: LockService,
  ) {}
}

export interface OpenService {
  readonly task: ServiceTask;
  readonly locks: LockService;
  readonly terms: ServiceTerms;
}

/** A Nest application with two lock services. A process starts several of them, one after the other. */
export class LockApplication {
  readonly services: readonly OpenService[];
  readonly #context: INestApplicationContext;
  readonly #recorder: Recorder;
  readonly #shutdownMs: number;
  #isClosing = false;

  private constructor(
    context: INestApplicationContext,
    services: readonly OpenService[],
    recorder: Recorder,
    shutdownMs: number,
  ) {
    this.#context = context;
    this.services = services;
    this.#recorder = recorder;
    this.#shutdownMs = shutdownMs;
  }

  /** @param clients belong to the process, and stay open when an application closes */
  static async start(
    task: WorkerTask,
    generation: number,
    recorder: Recorder,
    clients: SharedClients,
  ): Promise<LockApplication> {
    class Application {}
    const imports = task.services.map((service) =>
      RedisLockModule.forRoot(moduleOptions(service, task.shutdownMs, clients)),
    );
    Module({ imports, providers: [Services] })(Application);
    const context = await NestFactory.createApplicationContext(Application, {
      logger: false,
      abortOnError: false,
    });
    const { first, second } = context.get(Services);
    const services = task.services.map((service) => ({
      task: service,
      locks: service.name === undefined ? first : second,
      terms: {
        id: `${task.name}.${generation}${service.name === undefined ? 'a' : 'b'}`,
        waitMs: WAIT_MS,
        leaseMs: service.leaseMs,
        maxHoldMs: MAX_HOLD_MS,
        lingerMs: service.lingerMs,
      },
    }));
    return new LockApplication(context, services, recorder, task.shutdownMs);
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    const services = this.services.map(({ terms }) => terms.id);
    const { process } = this.#recorder;
    const shutdownMs = this.#shutdownMs;
    this.#recorder.append({ kind: 'closing', at: monotonicMs(), process, services, shutdownMs });
    await this.#context.close();
    this.#recorder.append({ kind: 'closed', at: monotonicMs(), process, services });
  }
}

function moduleOptions(
  service: ServiceTask,
  shutdownMs: number,
  clients: SharedClients,
): RedisLockModuleOptions & { name?: string } {
  const { name, redis, leaseMs, lingerMs, localHandovers, awaitRelease } = service;
  return {
    connection: connectionOf(service.connection, redis, clients),
    ...(name !== undefined && { name }),
    waitMs: WAIT_MS,
    maxHoldMs: MAX_HOLD_MS,
    leaseMs,
    lingerMs,
    localHandovers,
    awaitRelease,
    shutdownMs,
  };
}

function connectionOf(
  kind: ServiceTask['connection'],
  address: RedisAddress,
  clients: SharedClients,
): RedisLockModuleOptions['connection'] {
  if (kind === 'client') return clients.of(address);
  switch (address.kind) {
    case 'url': {
      if (kind === 'url') return address.url;
      const { hostname, port } = new URL(address.url);
      return { host: hostname, port: Number(port) };
    }
    case 'sentinels':
      return { sentinels: [...address.sentinels], name: address.name };
    case 'cluster':
      return { cluster: [...address.nodes] };
  }
}

/** Clients that belong to the process. When an application has closed, it must have left nothing on them. */
export class SharedClients {
  readonly #clients = new Map<string, Redis | Cluster>();
  readonly #listeners = new Map<Redis | Cluster, string>();

  of(address: RedisAddress): Redis | Cluster {
    const name = JSON.stringify(address);
    let client = this.#clients.get(name);
    if (client === undefined) {
      client = openClient(address);
      this.#clients.set(name, client);
      this.#listeners.set(client, listenersOf(client));
    }
    return client;
  }

  /** @returns what was left on them */
  leftovers(): string[] {
    return [...this.#listeners].flatMap(([client, before]) => {
      const after = listenersOf(client);
      return after === before ? [] : [`listeners of the client were ${before} and are ${after}`];
    });
  }

  close(): void {
    for (const client of this.#clients.values()) client.disconnect();
  }
}

/** What ioredis adds while it connects is not counted, and the cluster's own listener, which stays, never. */
function listenersOf(client: Redis | Cluster): string {
  const isOwn = (name: string | symbol): boolean =>
    client.isCluster
      ? name === 'close'
      : client.status !== 'ready' && /^(?:ready|close)$/.test(String(name));
  return client
    .eventNames()
    .filter((name) => !isOwn(name))
    .map((name) => `${String(name)} ${client.listenerCount(name)}`)
    .sort()
    .join(', ');
}
