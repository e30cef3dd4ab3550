import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterTest } from './after-test.js';

/**
 * A proxy that drops idle connections as load balancers and routers do: it then discards everything that either side
 * sends, and closes neither side.
 */
export class ForgettingProxy {
  readonly #server: Server;
  /** How long the first data of a new connection is delayed. */
  delayMs = 0;
  readonly #sockets = new Set<Socket>();
  #forgotten = 0;
  #targetPort: number;
  #retarget = new Set<() => void>();

  private constructor(
    targetPort: number,
    readonly forgetAfterMs: number,
  ) {
    this.#targetPort = targetPort;
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
  }

  /** Stopped after the test. */
  static async start(targetPort: number, forgetAfterMs: number): Promise<ForgettingProxy> {
    const proxy = new ForgettingProxy(targetPort, forgetAfterMs);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    afterTest(() => proxy.#stop());
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** How many connections were dropped. */
  get forgotten(): number {
    return this.#forgotten;
  }

  /** Moves every connection to another server, including open ones; the clients do not notice. */
  moveTo(targetPort: number): void {
    this.#targetPort = targetPort;
    for (const move of this.#retarget) move();
  }

  async #stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(client: Socket): void {
    let target = this.#connect(client);
    let isForgotten = false;
    const forget = (): void => {
      isForgotten = true;
      this.#forgotten++;
    };
    let timer = setTimeout(forget, this.forgetAfterMs);
    const pass = (data: Buffer, to: () => Socket): void => {
      if (isForgotten) return;
      clearTimeout(timer);
      timer = setTimeout(forget, this.forgetAfterMs);
      to().write(data);
    };
    const listen = (): void => {
      const from = target;
      from.on('data', (data) => from === target && pass(data, () => client));
      from.on('close', () => {
        if (from === target && !isForgotten) client.destroy();
      });
    };
    listen();
    const move = (): void => {
      const before = target;
      target = this.#connect(client);
      listen();
      before.destroy();
    };
    this.#retarget.add(move);
    if (this.delayMs > 0) {
      client.pause();
      setTimeout(() => client.resume(), this.delayMs);
    }
    client.on('data', (data) => pass(data, () => target));
    client.on('end', () => isForgotten || target.end());
    client.on('close', () => {
      this.#retarget.delete(move);
      clearTimeout(timer);
      if (!isForgotten) target.destroy();
    });
    this.#track(client);
  }

  #connect(client: Socket): Socket {
    const target = connect(this.#targetPort, '127.0.0.1');
    target.setNoDelay(true);
    client.setNoDelay(true);
    this.#track(target);
    return target;
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
  }
}
