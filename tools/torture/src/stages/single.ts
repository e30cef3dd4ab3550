import { RedisServer, type RedisServerOptions } from 'dev-servers';
import type { Redis } from 'ioredis';
import type { SeededRandom } from 'kit';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Faults, noted } from '../faults/fault.js';
import { LatencyProxy } from './latency-proxy.js';
import { openClient, type RedisAddress } from './redis-address.js';
import type { Master, ProxiedStage } from './stage.js';

/** One server that keeps its data on disk, reached directly or through a proxy. */
export class SingleStage implements ProxiedStage {
  readonly #admin: Redis;
  readonly #data: string;

  protected constructor(
    readonly server: RedisServer,
    readonly proxy: LatencyProxy,
    data: string,
  ) {
    this.#admin = openClient(server.url);
    this.#data = data;
  }

  static async start(
    folder: string,
    options: RedisServerOptions = { args: ['--appendonly', 'yes'] },
  ): Promise<SingleStage> {
    const dir = join(folder, 'redis-data');
    await mkdir(dir);
    const server = await RedisServer.start({ ...options, dir });
    return new this(server, await new LatencyProxy(server.port).open(), dir);
  }

  get masters(): readonly Master[] {
    return [{ server: this.server, admin: this.#admin, keys: 'all' }];
  }

  addressFor(random: SeededRandom): RedisAddress {
    return random.chance(0.5) ? this.server.url : this.proxy.url;
  }

  /**
   * Starts the killed server again.
   *
   * @param keepsData true if everything that was answered before is still known afterwards
   */
  async restart(keepsData: boolean): Promise<void> {
    if (!keepsData) {
      await rm(this.#data, { recursive: true });
      await mkdir(this.#data);
    }
    await this.server.restart();
  }

  async stop(): Promise<void> {
    this.#admin.disconnect();
    await this.proxy.close();
    await this.server.stop();
  }
}

/** What only a server with a disk of its own can survive. */
export const RESTARTS: Faults<SingleStage> = {
  'redis restarted empty': (scene) =>
    noted(
      scene,
      { disturbs: 'all', forgets: 'all', notice: 'reconnect' },
      async (nothingMoreIsForgotten) => {
        await scene.stage.server.kill();
        nothingMoreIsForgotten();
        await sleep(scene.random.between(0, 300));
        await scene.stage.restart(false);
      },
    ),
  'redis restarted with its data': (scene) =>
    noted(scene, { disturbs: 'all' }, async () => {
      await scene.stage.server.kill();
      await sleep(scene.random.between(0, 300));
      await scene.stage.restart(true);
    }),
};
