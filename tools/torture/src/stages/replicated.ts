import { RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Faults, noted } from '../faults/fault.js';
import { LatencyProxy } from './latency-proxy.js';
import { openClient, type RedisAddress } from './redis-address.js';
import type { Master, Member, ProxiedStage } from './stage.js';

const ARGS = ['--repl-diskless-sync', 'yes', '--repl-diskless-sync-delay', '0'];

/**
 * A master and its replica behind one address, as in a managed Redis: the workers know only the proxy. The two change
 * places in a failover.
 */
export class ReplicatedStage implements ProxiedStage {
  #pair: readonly [master: Member, replica: Member];

  private constructor(
    pair: readonly [Member, Member],
    readonly proxy: LatencyProxy,
  ) {
    this.#pair = pair;
  }

  static async start(): Promise<ReplicatedStage> {
    const pair = await Promise.all([startMember(), startMember()]);
    const proxy = await new LatencyProxy(pair[0].server.port).open();
    const stage = new ReplicatedStage(pair, proxy);
    await stage.follow(pair[1]);
    await linked(pair[1]);
    return stage;
  }

  get pair(): readonly [master: Member, replica: Member] {
    return this.#pair;
  }

  get masters(): readonly Master[] {
    return [{ ...this.#pair[0], keys: 'all' }];
  }

  addressFor(): RedisAddress {
    return this.proxy.url;
  }

  /** Makes the replica the master. Old connections stay where they are. */
  async swap(): Promise<void> {
    const [old, next] = this.#pair;
    await next.admin.replicaof('NO', 'ONE');
    this.#pair = [next, old];
    this.proxy.leadTo(next.server.port);
  }

  /** Tells a server to follow the master. */
  async follow({ admin }: Member): Promise<void> {
    await admin.replicaof('127.0.0.1', String(this.#pair[0].server.port));
  }

  async stop(): Promise<void> {
    await this.proxy.close();
    for (const { server, admin } of this.#pair) {
      admin.disconnect();
      await server.stop();
    }
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
  /** Nothing is lost, because writes wait until the replica has all of them. Old connections stay or are cut. */
  'failover in order': (scene) =>
    noted(scene, { disturbs: 'all' }, async () => {
      const { stage, random } = scene;
      const [old, next] = stage.pair;
      await old.admin.client('PAUSE', 5_000, 'WRITE');
      const written = await offsetOf(old, 'master_repl_offset');
      while ((await offsetOf(next, 'slave_repl_offset')) < written) await sleep(5);
      await stage.swap();
      await stage.follow(old);
      await old.admin.client('UNPAUSE');
      if (random.chance(0.5)) stage.proxy.cut();
      await linked(old);
    }),
  /** The old master goes on for a moment, and what it writes then is lost. */
  'failover with loss': (scene) =>
    noted(scene, LOSS, async (nothingMoreIsForgotten) => {
      const { stage, random } = scene;
      const [old, next] = stage.pair;
      await next.admin.replicaof('NO', 'ONE');
      await sleep(random.between(0, 300));
      await stage.swap();
      await stage.follow(old);
      nothingMoreIsForgotten();
      if (random.chance(0.5)) stage.proxy.cut();
      await linked(old);
    }),
  /** The master dies, and what it had not passed on is lost. It comes back, empty, as a replica. */
  'failover after a crash': (scene) =>
    noted(scene, LOSS, async (nothingMoreIsForgotten) => {
      const { stage } = scene;
      const [old] = stage.pair;
      await old.server.kill();
      nothingMoreIsForgotten();
      await stage.swap();
      stage.proxy.cut();
      await old.server.restart();
      await stage.follow(old);
      await linked(old);
    }),
};

async function startMember(): Promise<Member> {
  const server = await RedisServer.start({ args: ARGS });
  return { server, admin: openClient(server.url) };
}

/** Resolves when a replica gets what its master writes. */
async function linked({ admin }: Member): Promise<void> {
  while (!(await admin.info('replication')).includes('master_link_status:up')) await sleep(20);
}

async function offsetOf({ admin }: Member, field: string): Promise<number> {
  const info = await admin.info('replication');
  return Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(info)?.[1]);
}
