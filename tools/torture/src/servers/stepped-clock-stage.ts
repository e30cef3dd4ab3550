import { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import type { SeededRandom } from 'kit';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { adminClient } from './admin-client.js';
import { LatencyProxy } from './latency-proxy.js';
import type { RedisAddress } from './redis-address.js';
import type { Master, ProxiedStage } from './stage.js';

/** The path of libfaketime: where it is usually installed, or where the environment says. */
export const faketime: string | undefined = [
  process.env['LIBFAKETIME'] ?? '',
  ...(existsSync('/usr/lib') ? readdirSync('/usr/lib') : []).map((name) =>
    join('/usr/lib', name, 'faketime', 'libfaketime.so.1'),
  ),
  '/usr/local/lib/faketime/libfaketime.so.1',
].find((file) => existsSync(file));

/** One server whose wall clock can be set while it runs. */
export class SteppedClockStage implements ProxiedStage {
  readonly kind = 'stepped-clock';
  readonly server: RedisServer;
  readonly #admin: Redis;
  readonly proxy: LatencyProxy;
  readonly #offset: string;

  private constructor(server: RedisServer, proxy: LatencyProxy, offset: string) {
    this.server = server;
    this.#admin = adminClient(server.url);
    this.proxy = proxy;
    this.#offset = offset;
  }

  /** @throws Error if there is no libfaketime */
  static async start(folder: string): Promise<SteppedClockStage> {
    if (faketime === undefined) throw new Error('there is no libfaketime on this machine');
    const programs = join(folder, 'programs');
    await mkdir(programs);
    const offset = join(folder, 'clock-offset');
    await writeFile(offset, '+0\n');
    const path = process.env['PATH'] ?? '';
    for (const name of ['redis-server', 'valkey-server']) {
      await writeFile(join(programs, name), wrapper(name, path, faketime, offset));
      await chmod(join(programs, name), 0o755);
    }
    process.env['PATH'] = programs + delimiter + path; // found first
    try {
      const server = await RedisServer.start();
      return new SteppedClockStage(server, await new LatencyProxy(server.port).open(), offset);
    } finally {
      process.env['PATH'] = path;
    }
  }

  get masters(): readonly Master[] {
    return [{ server: this.server, admin: this.#admin, keys: 'all' }];
  }

  addressFor(random: SeededRandom): RedisAddress {
    return { kind: 'url', url: random.chance(0.5) ? this.server.url : this.proxy.url };
  }

  /** Sets the server's clock to this many seconds after the real one. */
  async setClock(seconds: number): Promise<void> {
    // The server reads the file whenever it reads its clock, so the file is replaced in one step.
    await writeFile(`${this.#offset}.new`, `${seconds < 0 ? '' : '+'}${seconds}\n`);
    await rename(`${this.#offset}.new`, this.#offset);
  }

  async stop(): Promise<void> {
    this.#admin.disconnect();
    await this.proxy.close();
    await this.server.stop();
  }
}

/** libc comes right after libfaketime, because otherwise the allocator of Redis and libfaketime wait for each other. */
function wrapper(name: string, path: string, library: string, offset: string): string {
  const settings = [
    `PATH='${path}'`,
    `LD_PRELOAD='${library}:libc.so.6'`,
    `FAKETIME_TIMESTAMP_FILE='${offset}'`,
    'FAKETIME_NO_CACHE=1',
    'FAKETIME_DONT_FAKE_MONOTONIC=1',
  ];
  return `#!/bin/sh\nexec env ${settings.join(' ')} ${name} "$@"\n`;
}
