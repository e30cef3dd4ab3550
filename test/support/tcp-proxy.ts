import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterTest } from './after-test.js';

/** A proxy that can silence connections without closing them, as a broken network does. */
export class TcpProxy {
  readonly #server: Server;
  #targetPort: number;
  /** In the order in which they were accepted. */
  readonly #links = new Set<Link>();
  #newAreSilent = false;
  #newAreCut = false;
  #newAreLateBy = 0;
  #silentAt: string | undefined;
  #onSilence: () => void = () => {};

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
    // A silent link must not react when the other side ends its half either.
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
  }

  /** Stopped after the test. */
  static async start(targetPort: number): Promise<TcpProxy> {
    const proxy = new TcpProxy(targetPort);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    afterTest(() => proxy.#stop());
    return proxy;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** New connections lead to another server; open ones keep their server. */
  leadTo(targetPort: number): void {
    this.#targetPort = targetPort;
  }

  /** Delays the replies on open connections, and optionally on new ones. Replies stay in order. */
  delayAnswers(ms: number, { alsoToCome = false } = {}): void {
    if (alsoToCome) this.#newAreLateBy = ms;
    for (const link of this.#links) link.delayAnswers(ms);
  }

  /** Holds the replies on open connections back. */
  holdAnswers(): void {
    for (const link of this.#links) link.swallowAnswers();
  }

  /** Lets the replies through that were held back, and all later ones. */
  passAnswers(): void {
    for (const link of this.#links) link.passAnswers();
  }

  /** Silences the newest connection, and optionally all new ones. */
  silenceNewest({ alsoToCome = false } = {}): void {
    this.#newAreSilent = alsoToCome;
    [...this.#links].at(-1)?.silence();
  }

  /** Silences open and new connections. @returns the number of open connections */
  silenceAll(): number {
    this.#newAreSilent = true;
    for (const link of this.#links) link.silence();
    return this.#links.size;
  }

  /** Silences the next connection on which the client sends `word`, which does not pass. Resolves when it is silent. */
  silenceAt(word: string): Promise<void> {
    this.#silentAt = word.toLowerCase();
    return new Promise((resolve) => (this.#onSilence = resolve));
  }

  silenceOldest(): void {
    [...this.#links][0]?.silence();
  }

  /** Delays the data of the first connection. */
  delayFirst(ms: number): void {
    this.#server.once('connection', (client: Socket) => {
      client.pause();
      setTimeout(() => client.resume(), ms);
    });
  }

  /** Discards the replies on the oldest connection. */
  swallowAnswersOfOldest(): void {
    [...this.#links][0]?.swallowAnswers();
  }

  /** Resolves with the next connection, before it has sent anything. */
  async nextConnection(): Promise<void> {
    await once(this.#server, 'connection');
  }

  /** New connections work again; silent ones remain silent. */
  heal(): void {
    this.#newAreSilent = false;
    this.#newAreCut = false;
  }

  /** Cuts the open connections. */
  cut(): void {
    for (const link of this.#links) link.cut();
  }

  /** Cuts the open connections and all new ones. */
  cutAll(): void {
    this.#newAreCut = true;
    this.cut();
  }

  cutNewest(): void {
    [...this.#links].at(-1)?.cut();
  }

  async #stop(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(client: Socket): void {
    if (this.#newAreCut) return void client.destroy();
    const link = new Link(client, connect(this.#targetPort, '127.0.0.1'), (data) => {
      if (this.#silentAt === undefined) return true;
      if (!data.toString('latin1').toLowerCase().includes(this.#silentAt)) return true;
      this.#silentAt = undefined;
      this.#onSilence();
      return false;
    });
    if (this.#newAreSilent) link.silence();
    if (this.#newAreLateBy > 0) link.delayAnswers(this.#newAreLateBy);
    this.#links.add(link);
    client.on('close', () => this.#links.delete(link));
  }
}

/** A client's connection, and the proxy's connection to the server for it. */
class Link {
  readonly #client: Socket;
  readonly #target: Socket;

  constructor(client: Socket, target: Socket, mayPass: (data: Buffer) => boolean) {
    this.#client = client;
    this.#target = target;
    client.on('data', (data) => {
      if (mayPass(data)) target.write(data);
      else this.silence();
    });
    client.on('end', () => target.end());
    target.pipe(client);
    client.on('error', () => this.cut());
    target.on('error', () => this.cut());
    client.on('close', () => this.cut());
    target.on('close', () => this.cut());
  }

  silence(): void {
    this.swallowAnswers();
    this.#client.pause();
  }

  delayAnswers(ms: number): void {
    this.#target.unpipe(this.#client);
    this.#target.on('data', (data) => {
      setTimeout(() => this.#client.write(data), ms);
    });
    this.#target.resume();
  }

  swallowAnswers(): void {
    this.#target.unpipe(this.#client);
    this.#target.pause();
  }

  passAnswers(): void {
    this.#target.pipe(this.#client);
  }

  cut(): void {
    this.#client.destroy();
    this.#target.destroy();
  }
}
