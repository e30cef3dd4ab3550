import { type ProxyLink, TcpProxy } from 'kit';
import { afterTest } from './after-test.js';

/** The inbox messages that can be lost: `g` for grant, `w` for wanted, `h` for head. */
export type MessageKind = 'g' | 'w' | 'h';

/**
 * A proxy to a Redis server that parses the replies. It can lose single messages or replies, and can switch to another
 * server.
 */
export class FaultProxy extends TcpProxy {
  readonly #runScripts = new WeakSet<ProxyLink>();
  #lost: MessageKind | undefined;
  #onLost: () => void = () => {};

  /** Closed after the test. */
  static async start(port: number): Promise<FaultProxy> {
    const proxy = await new FaultProxy(port).open();
    afterTest(() => proxy.close());
    return proxy;
  }

  /** Connects to another server from now on, and cuts the open connections. */
  switchTo(port: number): void {
    this.leadTo(port);
    this.cut();
  }

  /** Loses the next message of this kind, and passes on all others. Resolves when the message is lost. */
  loseMessage(kind: MessageKind): Promise<void> {
    this.#lost = kind;
    return new Promise((resolve) => (this.#onLost = resolve));
  }

  /**
   * On each connection that runs scripts, cuts the connection at the next reply, which is lost. @returns how many there
   * are
   */
  loseAnswers(): number {
    const links = [...this.links].filter((link) => this.#runScripts.has(link));
    for (const link of links) link.fromServer = () => link.cut();
    return links.length;
  }

  protected override accept(link: ProxyLink): void {
    link.fromClient = (data) => {
      if (data.toString('latin1').toLowerCase().includes('evalsha')) this.#runScripts.add(link);
      link.toServer(data);
    };
    let unread: Buffer = Buffer.alloc(0);
    link.fromServer = (data) => {
      unread = Buffer.concat([unread, data]);
      for (;;) {
        const end = frameEnd(unread, 0);
        if (end === undefined) return;
        const frame = unread.subarray(0, end);
        unread = unread.subarray(end);
        if (!this.#loses(frame)) link.toClient(frame);
      }
    };
  }

  #loses(frame: Buffer): boolean {
    if (this.#lost === undefined || messageKind(frame) !== this.#lost) return false;
    this.#lost = undefined;
    this.#onLost();
    return true;
  }
}

/** The offset at which the reply that begins at `start` ends; undefined if the reply is incomplete. */
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
