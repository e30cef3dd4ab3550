import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** One client's connection, and the one to the server behind it. What is said passes through two functions. */
export class ProxyLink {
  /** What becomes of what the client says. */
  fromClient: (data: Buffer) => void = (data) => this.toServer(data);
  /** What becomes of what the server says. */
  fromServer: (data: Buffer) => void = (data) => this.#late(data);
  /** How much later answers arrive, in their order. */
  answersLateByMs = 0;
  /** Whether neither side is told when the other one has gone. */
  isSilent = false;
  readonly #waiting: { readonly data: Buffer; readonly at: number }[] = [];

  constructor(
    readonly client: Socket,
    readonly server: Socket,
  ) {
    client.on('data', (data) => this.fromClient(data));
    server.on('data', (data) => this.fromServer(data));
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on('error', () => socket.destroy());
      socket.on('end', () => this.isSilent || this.#end());
      socket.on('close', () => this.isSilent || this.cut());
    }
  }

  toClient(data: Buffer): void {
    if (!this.client.destroyed) this.client.write(data);
  }

  toServer(data: Buffer): void {
    if (!this.server.destroyed) this.server.write(data);
  }

  cut(): void {
    this.client.destroy();
    this.server.destroy();
  }

  /** From now on, what either side says is accepted and passed to nobody. */
  passNothing(): void {
    this.fromClient = () => {};
    this.fromServer = () => {};
    this.#waiting.length = 0;
  }

  /** From now on nothing passes, and neither side is told of the other one's end, as on a broken network. */
  fallSilent(): void {
    this.isSilent = true;
    this.passNothing();
  }

  /** Ends both sides, after what has been passed on. */
  #end(): void {
    this.client.end();
    this.server.end();
  }

  /** Nothing overtakes what was said before it. */
  #late(data: Buffer): void {
    if (this.answersLateByMs === 0 && this.#waiting.length === 0) return this.toClient(data);
    this.#waiting.push({ data, at: performance.now() + this.answersLateByMs });
    if (this.#waiting.length === 1) this.#passWhenDue();
  }

  #passWhenDue(): void {
    const [next] = this.#waiting;
    if (next === undefined) return;
    setTimeout(
      () => {
        // It is another one, or none, if nothing passes any more.
        if (this.#waiting[0] === next) this.toClient(next.data);
        this.#waiting.shift();
        this.#passWhenDue();
      },
      Math.max(0, next.at - performance.now()),
    );
  }
}

/** A way to a server that can be cut or taken away, or lead to another server. */
export class TcpProxy {
  /** The open connections, in the order of their arrival. */
  readonly links = new Set<ProxyLink>();
  readonly #target: URL;
  #server: Server | undefined;
  #port = 0;

  /** @param target the port of a Redis on this machine, or the URL of any server */
  constructor(target: number | string) {
    this.#target = new URL(typeof target === 'number' ? `redis://127.0.0.1:${target}` : target);
  }

  /** That of the target, but through this proxy. */
  get url(): string {
    const url = new URL(this.#target);
    url.hostname = '127.0.0.1';
    url.port = String(this.#port);
    return url.href;
  }

  /** Listens, after `close` on the same port as before. */
  async open(): Promise<this> {
    // A silent link must not answer the end of a side either.
    const server = createServer({ allowHalfOpen: true }, (client) => this.#connect(client));
    this.#server = server.listen(this.#port, '127.0.0.1');
    await once(server, 'listening');
    this.#port = (server.address() as AddressInfo).port;
    return this;
  }

  /** Connections to come lead to another port; present ones stay where they are. */
  leadTo(port: number): void {
    this.#target.port = String(port);
  }

  /** Cuts the present connections. */
  cut(): void {
    for (const link of this.links) link.cut();
  }

  /** Cuts everything and listens no more. */
  async close(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    const closed = once(server, 'close');
    server.close();
    this.cut();
    await closed;
  }

  /** What happens to a new connection before anything passes on it. By default, nothing. */
  protected accept(_link: ProxyLink): void {}

  #connect(client: Socket): void {
    const { hostname: host, port } = this.#target;
    const server = connect({ host, port: Number(port), allowHalfOpen: true });
    const link = new ProxyLink(client, server);
    this.links.add(link);
    for (const socket of [client, server]) {
      socket.on('close', () => {
        if (client.destroyed && server.destroyed) this.links.delete(link);
      });
    }
    this.accept(link);
  }
}
