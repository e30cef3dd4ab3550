import { type INestApplicationContext, Inject, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Cluster, Redis } from 'ioredis';
import {
  InjectLockService,
  LockService,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import {
  isQuorum,
  openClient,
  type QuorumAddress,
  type RedisAddress,
} from '../stages/redis-address.js';
import { falsifyVotes } from './false-votes.js';
import type { Recorder, ServiceTerms } from './recorder.js';
import type { ServiceTask, WorkerTask } from './task.js';

const LIMITS = { waitMs: 20_000, maxHoldMs: 60_000 };
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
  readonly #context: INestApplicationContext;
  readonly #recorder: Recorder;
  readonly #shutdownMs: number;
  #isClosing = false;

  private constructor(
    context: INestApplicationContext,
    readonly services: readonly OpenService[],
    recorder: Recorder,
    shutdownMs: number,
  ) {
    this.#context = context;
    this.#recorder = recorder;
    this.#shutdownMs = shutdownMs;
  }

  /** @param clients belong to the process, and stay open when an application closes */
  static async start(
    { name: process, services: tasks, shutdownMs, breaks }: WorkerTask,
    generation: number,
    recorder: Recorder,
    clients: SharedClients,
  ): Promise<LockApplication> {
    class Application {}
    const imports = tasks.map(({ name, redis, connection, options }) =>
      RedisLockModule.forRoot({
        connection: connectionAs(connection, falsifyVotes(breaks, redis), clients),
        ...(name !== undefined && { name }),
        ...{ ...LIMITS, ...options, shutdownMs },
      }),
    );
    Module({ imports, providers: [Services] })(Application);
    const context = await NestFactory.createApplicationContext(Application, {
      logger: false,
      abortOnError: false,
    });
    const { first, second } = context.get(Services);
    const services = tasks.map((task): OpenService => {
      const [locks, letter] = task.name === undefined ? [first, 'a'] : [second, 'b'];
      const id = `${process}.${generation}${letter}`;
      return { task, locks, terms: { id, ...LIMITS, ...task.options } };
    });
    return new LockApplication(context, services, recorder, shutdownMs);
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    const { process, history } = this.#recorder;
    const closing = { process, services: this.services.map(({ terms }) => terms.id) };
    history.note('closing', { ...closing, shutdownMs: this.#shutdownMs });
    await this.#context.close();
    history.note('closed', closing);
  }
}

type Address = Exclude<RedisAddress, QuorumAddress>;

function connectionAs(
  form: ServiceTask['connection'],
  address: RedisAddress,
  clients: SharedClients,
): RedisLockModuleOptions['connection'] {
  if (!isQuorum(address)) return form === 'client' ? clients.of(address) : addressAs(form, address);
  const { rejoinAfterMs } = address;
  const quorum = address.quorum.map((url) =>
    form === 'client' ? (clients.of(url) as Redis) : (addressAs(form, url) as string),
  );
  return { quorum, rejoinAfterMs };
}

function addressAs(
  form: 'url' | 'options',
  address: Address,
): Exclude<RedisLockModuleOptions['connection'], { readonly quorum: unknown }> {
  if (form === 'url' || typeof address !== 'string') return address;
  const { hostname, port } = new URL(address);
  return { host: hostname, port: Number(port) };
}

/** Clients that belong to the process. When an application has closed, it must have left nothing on them. */
export class SharedClients {
  readonly #clients = new Map<string, Redis | Cluster>();
  readonly #listeners = new Map<Redis | Cluster, string>();

  of(address: Address): Redis | Cluster {
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
