import { type ProxyLink, TcpProxy } from 'kit';
import { afterTest } from './after-test.js';

/** The kinds of messages in an inbox that can get lost: grant, wanted, head. */
export type MessageKind = 'g' | 'w' | 'h';

/**
 * A way to a Redis server that understands what passes: it loses single messages or answers, and can lead elsewhere.
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

  /** Leads to another server from now on; present connections are cut. */
  switchTo(port: number): void {
    this.leadTo(port);
    this.cut();
  }

  /** Loses the next message of this kind, all others pass; resolves when it is lost. */
  loseMessage(kind: MessageKind): Promise<void> {
    this.#lost = kind;
    return new Promise((resolve) => (this.#onLost = resolve));
  }

  /** Cuts every connection on which scripts are run, as soon as there is an answer, which is lost. */
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
