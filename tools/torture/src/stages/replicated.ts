import { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Faults, noted } from '../faults/fault.js';
import { LatencyProxy } from './latency-proxy.js';
import { openClient, type RedisAddress } from './redis-address.js';
import type { Master, ProxiedStage } from './stage.js';

interface Node {
  readonly server: RedisServer;
  readonly admin: Redis;
}

const ARGS = ['--repl-diskless-sync', 'yes', '--repl-diskless-sync-delay', '0'];

/**
 * A master and its replica behind one address, as in a managed Redis: the workers know only the proxy. The two change
 * places in a failover.
 */
export class ReplicatedStage implements ProxiedStage {
  #master: Node;
  #replica: Node;

  private constructor(
    master: Node,
    replica: Node,
    readonly proxy: LatencyProxy,
  ) {
    this.#master = master;
    this.#replica = replica;
  }

  static async start(): Promise<ReplicatedStage> {
    const [master, replica] = await Promise.all([startNode(), startNode()]);
    const proxy = await new LatencyProxy(master.server.port).open();
    const stage = new ReplicatedStage(master, replica, proxy);
    await stage.#follow(replica, master);
    return stage;
  }

  get masters(): readonly Master[] {
    return [{ ...this.#master, keys: 'all' }];
  }

  addressFor(): RedisAddress {
    return this.proxy.url;
  }

  /** Nothing is lost, because writes wait until the replica has all of them. Old connections stay or are cut. */
  async failOverInOrder(cutsOld: boolean): Promise<void> {
    const [old, next] = [this.#master, this.#replica];
    await old.admin.client('PAUSE', 5_000, 'WRITE');
    const written = await offsetOf(old, 'master_repl_offset');
    while ((await offsetOf(next, 'slave_repl_offset')) < written) await sleep(5);
    await this.#swap();
    await old.admin.replicaof('127.0.0.1', String(next.server.port));
    await old.admin.client('UNPAUSE');
    if (cutsOld) this.proxy.cut();
    await this.#linked(old);
  }

  /** The old master goes on for a moment, and what it writes then is lost. */
  async failOverWithLoss(splitMs: number, cutsOld: boolean, isOver: () => void): Promise<void> {
    const [old, next] = [this.#master, this.#replica];
    await next.admin.replicaof('NO', 'ONE');
    await sleep(splitMs);
    await this.#swap();
    await old.admin.replicaof('127.0.0.1', String(next.server.port));
    isOver();
    if (cutsOld) this.proxy.cut();
    await this.#linked(old);
  }

  /** The master dies, and what it had not passed on is lost. It comes back, empty, as a replica. */
  async failOverAfterCrash(isDead: () => void): Promise<void> {
    const [old, next] = [this.#master, this.#replica];
    await old.server.kill();
    isDead();
    await this.#swap();
    this.proxy.cut();
    await old.server.restart();
    await this.#follow(old, next);
  }

  async stop(): Promise<void> {
    await this.proxy.close();
    for (const { server, admin } of [this.#master, this.#replica]) {
      admin.disconnect();
      await server.stop();
    }
  }

  async #swap(): Promise<void> {
    const next = this.#replica;
    await next.admin.replicaof('NO', 'ONE');
    this.#replica = this.#master;
    this.#master = next;
    this.proxy.leadTo(next.server.port);
  }

  async #follow(replica: Node, master: Node): Promise<void> {
    await replica.admin.replicaof('127.0.0.1', String(master.server.port));
    await this.#linked(replica);
  }

  async #linked({ admin }: Node): Promise<void> {
    while (!(await admin.info('replication')).includes('master_link_status:up')) await sleep(20);
  }
}

/** A lease that was released shortly before may exist again, and then lasts for as long as the longest one. */
const HEALING_MS = 7_500;

const LOSS = {
  disturbs: 'all',
  forgets: 'all',
  notice: 'reconnect',
  healingMs: HEALING_MS,
} as const;

/** The replica takes the master's place, behind the same address. */
export const FAILOVERS: Faults<ReplicatedStage> = {
  'failover in order': (scene) =>
    noted(scene, { disturbs: 'all' }, () => scene.stage.failOverInOrder(scene.random.chance(0.5))),
  'failover with loss': (scene) =>
    noted(scene, LOSS, (nothingMoreIsForgotten) => {
      const { random, stage } = scene;
      const splitMs = random.between(0, 300);
      return stage.failOverWithLoss(splitMs, random.chance(0.5), nothingMoreIsForgotten);
    }),
  'failover after a crash': (scene) =>
    noted(scene, LOSS, (nothingMoreIsForgotten) =>
      scene.stage.failOverAfterCrash(nothingMoreIsForgotten),
    ),
};

async function startNode(): Promise<Node> {
  const server = await RedisServer.start({ args: ARGS });
  return { server, admin: openClient(server.url) };
}

async function offsetOf({ admin }: Node, field: string): Promise<number> {
  const info = await admin.info('replication');
  return Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(info)?.[1]);
}
