import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterTest } from './after-test.js';

/**
 * A sentinel that reports a given master, and never reports a failover. It can report another master at the moment of a
 * subscription, which a real sentinel does only by chance.
 */
export class FakeSentinel {
  /** The replies to queries for the master, and the subscriptions, in order. */
  readonly served: string[] = [];
  /** Called before the reply to a subscription. */
  onSubscribe: () => void = () => {};
  /** What the sentinel does when it is queried for the master. */
  onQuestion: () => 'answer' | 'silence' | 'cut' = () => 'answer';
  readonly #sockets = new Set<Socket>();
  readonly #server: Server = createServer((client) => this.#accept(client));
  readonly #listeners = new Set<Socket>();

  private constructor(public master: number) {}

  /** Stopped after the test. @param master the port of the reported master */
  static async start(master: number): Promise<FakeSentinel> {
    const sentinel = new FakeSentinel(master);
    sentinel.#server.listen(0, '127.0.0.1');
    await once(sentinel.#server, 'listening');
    afterTest(() => sentinel.#stop());
    return sentinel;
  }

  get endpoint(): { host: string; port: number } {
    return { host: '127.0.0.1', port: (this.#server.address() as AddressInfo).port };
  }

  /** The number of open connections. */
  get open(): number {
    return this.#sockets.size;
  }

  /** The number of subscribed connections. */
  get listeners(): number {
    return this.#listeners.size;
  }

  /** How many queries for the master were answered. */
  get answers(): number {
    return this.served.filter((it) => it.startsWith('named')).length;
  }

  /** Closes the subscribed connections. */
  cutListeners(): void {
    for (const socket of this.#listeners) socket.destroy();
  }

  async #stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(client: Socket): void {
    this.#sockets.add(client);
    client.on('error', () => client.destroy());
    client.on('close', () => {
      this.#sockets.delete(client);
      this.#listeners.delete(client);
    });
    let unread = '';
    client.on('data', (data) => {
      unread += data.toString('latin1');
      for (let words = firstCommand(unread); words; words = firstCommand(unread)) {
        unread = unread.slice(words.length);
        const answer = this.#answer(words.command, client);
        if (answer !== '') client.write(answer);
      }
    });
  }

  #answer([command = '', subcommand = '']: string[], client: Socket): string {
    switch (`${command} ${subcommand}`.toLowerCase()) {
      case 'sentinel get-master-addr-by-name': {
        const does = this.onQuestion();
        if (does !== 'answer') {
          this.served.push(does);
          if (does === 'cut') client.destroy();
          return '';
        }
        this.served.push(`named ${this.master}`);
        const port = String(this.master);
        return `*2\r\n$9\r\n127.0.0.1\r\n$${port.length}\r\n${port}\r\n`;
      }
      case 'sentinel sentinels':
        return '*0\r\n';
      case 'subscribe +switch-master':
        this.onSubscribe();
        this.#listeners.add(client);
        this.served.push('subscribed');
        return '*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n';
      default:
        return command.toLowerCase() === 'hello' ? "-ERR unknown command 'HELLO'\r\n" : '+OK\r\n';
    }
  }
}

/** The first command in `text`; undefined if it is incomplete. */
function firstCommand(text: string): { command: string[]; length: number } | undefined {
  const count = /^\*(\d+)\r\n/.exec(text);
  if (count === null) return undefined;
  let length = count[0].length;
  const command: string[] = [];
  while (command.length < Number(count[1])) {
    const size = /^\$(\d+)\r\n/.exec(text.slice(length));
    if (size === null) return undefined;
    const from = length + size[0].length;
    length = from + Number(size[1]) + 2;
    if (text.length < length) return undefined;
    command.push(text.slice(from, length - 2));
  }
  return { command, length };
}
