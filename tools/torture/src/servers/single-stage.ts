import { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import type { SeededRandom } from 'kit';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { adminClient } from './admin-client.js';
import { LatencyProxy } from './latency-proxy.js';
import type { RedisAddress } from './redis-address.js';
import type { Master, ProxiedStage } from './stage.js';

/** One server that keeps its data on disk, reached directly or through a proxy. */
export class SingleStage implements ProxiedStage {
  readonly kind = 'single';
  readonly server: RedisServer;
  readonly #admin: Redis;
  readonly proxy: LatencyProxy;
  readonly #data: string;

  private constructor(server: RedisServer, proxy: LatencyProxy, data: string) {
    this.server = server;
    this.#admin = adminClient(server.url);
    this.proxy = proxy;
    this.#data = data;
  }

  static async start(folder: string): Promise<SingleStage> {
    const data = join(folder, 'redis-data');
    await mkdir(data);
    const server = await RedisServer.start({ dir: data, args: ['--appendonly', 'yes'] });
    return new SingleStage(server, await new LatencyProxy(server.port).open(), data);
  }

  get masters(): readonly Master[] {
    return [{ server: this.server, admin: this.#admin, keys: 'all' }];
  }

  addressFor(random: SeededRandom): RedisAddress {
    return { kind: 'url', url: random.chance(0.5) ? this.server.url : this.proxy.url };
  }

  /**
   * Starts the killed server again. @param keepsData true if everything that was answered before is still known
   * afterwards
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
