import { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Lets Redis itself say when a key was set, removed or expired, so that the observer is not the lock under test. */
const TELL_OF_KEYS = ['--notify-keyspace-events', 'Kg$hx'];

export function startRedis(): Promise<RedisServer> {
  return RedisServer.start({ args: TELL_OF_KEYS });
}

export function observe(url: string): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 100 });
  redis.on('error', () => {}); // servers are taken away on purpose
  return redis;
}

/** A main server with a replica behind one address, which moves to the replica when the main server is gone. */
export class ReplicatedRedis {
  readonly #sockets = new Set<Socket>();

  private constructor(
    private readonly main: RedisServer,
    private readonly replica: RedisServer,
    private readonly proxy: Server,
    private port: number,
  ) {}

  static async start(): Promise<ReplicatedRedis> {
    const main = await RedisServer.start({
      args: [...TELL_OF_KEYS, '--repl-diskless-sync-delay', '0'],
    });
    const replica = await RedisServer.start({
      args: [...TELL_OF_KEYS, '--replicaof', `127.0.0.1 ${main.port}`],
    });
    const proxy = createServer();
    const pair = new ReplicatedRedis(main, replica, proxy, main.port);
    proxy.on('connection', (client: Socket) => pair.#forward(client));
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    await pair.#untilReplicaFollows();
    return pair;
  }

  /** The address that the clients use. */
  get url(): string {
    return `redis://127.0.0.1:${(this.proxy.address() as AddressInfo).port}`;
  }

  /** From now on, nothing reaches the replica: it stands still, and its connection is cut. */
  async stopReplication(): Promise<void> {
    this.replica.pause();
    await withRedis(this.main.url, (redis) => redis.call('CLIENT', 'KILL', 'TYPE', 'replica'));
  }

  /** The main server dies, the replica takes its place, and the address moves. */
  async failOver(): Promise<void> {
    await this.main.kill();
    this.replica.resume();
    await withRedis(this.replica.url, (redis) => redis.call('REPLICAOF', 'NO', 'ONE'));
    this.port = this.replica.port;
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.proxy.close();
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all([this.main.stop(), this.replica.stop()]);
  }

  #forward(client: Socket): void {
    const server = connect(this.port, '127.0.0.1');
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }

  async #untilReplicaFollows(): Promise<void> {
    await withRedis(this.main.url, async (redis) => {
      while (!(await redis.info('replication')).includes('state=online')) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
  }
}

async function withRedis<T>(url: string, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = observe(url);
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}
