import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterTest } from './after-test.js';

/** The kinds of messages in an inbox that can get lost: grant, wanted, head. */
export type MessageKind = 'g' | 'w' | 'h';

/**
 * A way to a Redis server that understands what passes: it loses single messages or answers, and can lead elsewhere.
 */
export class FaultProxy {
  readonly #server: Server;
  readonly #links = new Set<Link>();
  #port: number;
  #lost: MessageKind | undefined;
  #onLost: () => void = () => {};

  private constructor(port: number) {
    this.#port = port;
    this.#server = createServer((client) => this.#accept(client));
  }

  /** Stopped after the test. */
  static async start(port: number): Promise<FaultProxy> {
    const proxy = new FaultProxy(port);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    afterTest(() => proxy.#stop());
    return proxy;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Leads to another server from now on; present connections are cut. */
  switchTo(port: number): void {
    this.#port = port;
    for (const link of this.#links) link.cut();
  }

  /** Loses the next message of this kind, all others pass; resolves when it is lost. */
  loseMessage(kind: MessageKind): Promise<void> {
    this.#lost = kind;
    return new Promise((resolve) => (this.#onLost = resolve));
  }

  /** Cuts every connection on which scripts are run, as soon as there is an answer, which is lost. */
  loseAnswers(): number {
    const links = [...this.#links].filter(({ runsScripts }) => runsScripts);
    for (const link of links) link.cutAtNextAnswer();
    return links.length;
  }

  async #stop(): Promise<void> {
    for (const link of this.#links) link.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(client: Socket): void {
    const link = new Link(client, connect(this.#port, '127.0.0.1'), (frame) => {
      if (this.#lost === undefined || messageKind(frame) !== this.#lost) return true;
      this.#lost = undefined;
      this.#onLost();
      return false;
    });
    this.#links.add(link);
    client.on('close', () => this.#links.delete(link));
  }
}

/** One client's connection, and the one to the server behind it. */
class Link {
  runsScripts = false;
  readonly #client: Socket;
  readonly #target: Socket;
  #cutAtNextAnswer = false;
  #unread: Buffer = Buffer.alloc(0);

  constructor(client: Socket, target: Socket, mayPass: (frame: Buffer) => boolean) {
    this.#client = client;
    this.#target = target;
    client.on('data', (data) => {
      this.runsScripts ||= data.toString('latin1').toLowerCase().includes('evalsha');
      target.write(data);
    });
    target.on('data', (data) => {
      if (this.#cutAtNextAnswer) return this.cut();
      for (const frame of this.#frames(data)) if (mayPass(frame)) client.write(frame);
    });
    for (const socket of [client, target]) {
      socket.setNoDelay(true);
      socket.on('error', () => this.cut());
      socket.on('close', () => this.cut());
    }
  }

  cutAtNextAnswer(): void {
    this.#cutAtNextAnswer = true;
  }

  cut(): void {
    this.#client.destroy();
    this.#target.destroy();
  }

  #frames(data: Buffer): Buffer[] {
    this.#unread = Buffer.concat([this.#unread, data]);
    const frames: Buffer[] = [];
    for (;;) {
      const end = frameEnd(this.#unread, 0);
      if (end === undefined) return frames;
      frames.push(this.#unread.subarray(0, end));
      this.#unread = this.#unread.subarray(end);
    }
  }
}

/** Where the reply that begins at `start` ends; undefined if it is not complete. */
function frameEnd(data: Buffer, start: number): number | undefined {
  const lineEnd = data.indexOf('\r\n', start);
  if (lineEnd === -1) return undefined;
  const type = String.fromCharCode(data[start] ?? 0);
  const size = Number(data.toString('latin1', start + 1, lineEnd));
  let end: number | undefined = lineEnd + 2;
  if ('$=!'.includes(type)) {
    if (size >= 0) end += size + 2;
    return end <= data.length ? end : undefined;
  }
  if (!'*>~%'.includes(type)) return end;
  const entries = type === '%' ? size * 2 : size;
  for (let i = 0; i < entries && end !== undefined; i++) end = frameEnd(data, end);
  return end;
}

function messageKind(frame: Buffer): string | undefined {
  return /\r\nmessage\r\n.*\r\n\$\d+\r\n(\w) /s.exec(frame.toString('latin1'))?.[1];
}
