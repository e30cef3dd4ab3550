import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterTest } from './after-test.js';

/**
 * A sentinel that names whatever it is told to, and never tells of a failover. It can change its mind when somebody
 * is about to listen to it, which with a real one takes luck.
 */
export class FakeSentinel {
  /** Answers to where the master is, and subscriptions, in order. */
  readonly served: string[] = [];
  /** Called before a subscription is answered. */
  onSubscribe: () => void = () => {};
  /** What it does when it is asked for the master. */
  onQuestion: () => 'answer' | 'silence' | 'cut' = () => 'answer';
  readonly #sockets = new Set<Socket>();
  readonly #server: Server = createServer((client) => this.#accept(client));
  readonly #listeners = new Set<Socket>();

  private constructor(public master: number) {}

  /** Stopped after the test. @param master the port of the server that it names */
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

  /** Connections that are open. */
  get open(): number {
    return this.#sockets.size;
  }

  /** Connections that listen. */
  get listeners(): number {
    return this.#listeners.size;
  }

  /** How often it has named a master. */
  get answers(): number {
    return this.served.filter((it) => it.startsWith('named')).length;
  }

  /** Breaks the connections of those who listen. */
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

/** The command with which the text begins; undefined if it is not complete. */
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
