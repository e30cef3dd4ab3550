import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/**
 * A way to a Redis server that can be slow, be cut or taken away, and lead to another server, like a load balancer or
 * the address of a managed Redis.
 */
export class LatencyProxy {
  readonly #links = new Set<Link>();
  #targetPort: number;
  #server: Server;
  #port = 0;
  /** Each new link draws its own delay, so messages overtake answers and vice versa. */
  #delayMs: () => number = () => 0;

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#server = this.#newServer();
  }

  static async start(targetPort: number): Promise<LatencyProxy> {
    const proxy = new LatencyProxy(targetPort);
    await proxy.#listen();
    return proxy;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  /** Lets new connections lead to another server. Present ones stay where they are unless they are cut. */
  leadTo(port: number): void {
    this.#targetPort = port;
  }

  cut(): void {
    for (const link of this.#links) link.cut();
  }

  /** From now on, present connections pass nothing on, and nobody is told. New ones are not affected. */
  swallow(): void {
    for (const link of this.#links) link.isDead = true;
  }

  /** Lets what the server says arrive later, by a different time on each connection. */
  slowDown(delayMs: () => number): void {
    this.#delayMs = delayMs;
    for (const link of this.#links) link.delayMs = delayMs();
  }

  /** Cuts everything and listens no more, until `reopen`. */
  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async reopen(): Promise<void> {
    this.#server = this.#newServer();
    await this.#listen();
  }

  async #listen(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  #newServer(): Server {
    return createServer((client) => {
      const link = new Link(client, connect(this.#targetPort, '127.0.0.1'), this.#delayMs());
      this.#links.add(link);
      client.on('close', () => this.#links.delete(link));
    });
  }
}

/** The connection of one client, and the one to the server behind it. */
class Link {
  delayMs: number;
  /** Accepts everything and passes nothing on, as the way through a NAT that has forgotten the connection. */
  isDead = false;
  readonly #client: Socket;
  readonly #target: Socket;
  /** The data on its way, in order: nothing overtakes what was sent before it on the same connection. */
  readonly #late: { readonly data: Buffer; readonly at: number }[] = [];

  constructor(client: Socket, target: Socket, delayMs: number) {
    this.#client = client;
    this.#target = target;
    this.delayMs = delayMs;
    client.on('data', (data) => {
      if (!this.isDead) target.write(data);
    });
    target.on('data', (data) => {
      if (!this.isDead) this.#pass(data);
    });
    for (const socket of [client, target]) {
      socket.setNoDelay(true);
      socket.on('error', () => this.cut());
      socket.on('close', () => this.cut());
    }
  }

  cut(): void {
    this.#client.destroy();
    this.#target.destroy();
  }

  #pass(data: Buffer): void {
    if (this.delayMs === 0 && this.#late.length === 0) {
      this.#client.write(data);
      return;
    }
    this.#late.push({ data, at: performance.now() + this.delayMs });
    if (this.#late.length === 1) this.#passLater();
  }

  #passLater(): void {
    const [next] = this.#late;
    if (next === undefined) return;
    setTimeout(
      () => {
        this.#late.shift();
        if (!this.isDead) this.#client.write(next.data);
        this.#passLater();
      },
      Math.max(0, next.at - performance.now()),
    );
  }
}
