import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterTest } from './after-test.js';

/** ReadyForQuery: the last message of every PostgreSQL reply. */
const READY = 'Z'.charCodeAt(0);
const HEAD_LENGTH = 5;

/** A proxy to a PostgreSQL server that counts round trips, and can break a connection at a given statement. */
export class PostgresProxy {
  readonly #server: Server;
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  #answers = 0;
  #breaksAt: string | undefined;
  #diesAt: RegExp | undefined;
  #dead = 0;

  private constructor(targetUrl: string) {
    this.#target = new URL(targetUrl);
    this.#server = createServer((client) => this.#accept(client));
  }

  /** Stopped after the test. */
  static async start(targetUrl: string): Promise<PostgresProxy> {
    const proxy = new PostgresProxy(targetUrl);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    afterTest(() => proxy.#stop());
    return proxy;
  }

  get url(): string {
    const url = new URL(this.#target);
    url.hostname = '127.0.0.1';
    url.port = String((this.#server.address() as AddressInfo).port);
    return url.href;
  }

  /** Counts the round trips of `work`. */
  async roundTrips(work: () => Promise<unknown>): Promise<number> {
    const before = this.#answers;
    await work();
    return this.#answers - before;
  }

  /** Cuts the connection on which the client next sends this text; the server does not receive it. */
  breakAt(text: string): void {
    this.#breaksAt = text;
  }

  /**
   * The connection on which the client next sends a match dies silently: nothing passes in either direction any more,
   * and it stays open on both sides.
   */
  dieAt(text: RegExp): void {
    this.#diesAt = text;
  }

  /** How many connections have died silently. */
  get dead(): number {
    return this.#dead;
  }

  async #stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(client: Socket): void {
    const target = connect(Number(this.#target.port), this.#target.hostname);
    const cut = (): void => {
      client.destroy();
      target.destroy();
    };
    for (const socket of [client, target]) {
      this.#sockets.add(socket);
      socket.on('error', cut);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        cut();
      });
    }
    const count = answerCounter(() => this.#answers++);
    let isDead = false;
    target.on('data', (data) => {
      if (isDead) return;
      count(data);
      client.write(data);
    });
    client.on('data', (data) => {
      if (this.#diesAt?.test(data.toString('latin1')) === true) {
        this.#diesAt = undefined;
        this.#dead++;
        isDead = true;
      }
      if (isDead) return;
      if (this.#breaksAt === undefined || !data.includes(this.#breaksAt)) {
        target.write(data);
        return;
      }
      this.#breaksAt = undefined;
      cut();
    });
  }
}

/** Parses the messages of the server from chunks of any size. A message is one letter, a length and a body. */
function answerCounter(onAnswer: () => void): (data: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (data) => {
    rest = Buffer.concat([rest, data]);
    while (rest.length >= HEAD_LENGTH) {
      const length = 1 + rest.readInt32BE(1);
      if (rest.length < length) return;
      if (rest[0] === READY) onAnswer();
      rest = rest.subarray(length);
    }
  };
}
