import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** What can become of a COMMIT on its way to the database and back. */
export const COMMIT_FAULTS = [
  'COMMIT lost',
  'answer to COMMIT lost',
  'COMMIT comes late',
  'COMMIT never arrives',
  'answer to COMMIT never comes',
] as const;
export type CommitFault = (typeof COMMIT_FAULTS)[number];

/** How much later a COMMIT comes whose client has gone: sooner than the lease ends that nobody releases. */
const LATE_MS = 1_500;

/** A statement that is COMMIT, and not the name of an isolation level. */
const COMMIT = /\bCOMMIT\b/;

/** After how long each side gives up a connection on which nothing comes any more. */
export interface DeadMs {
  readonly client: number;
  readonly server: number;
}

/** The way from the processes to the database. The next COMMIT on it can be cut off, or vanish without a word. */
export class DatabaseProxy {
  /** How often a COMMIT met each fault. */
  readonly happened: Partial<Record<CommitFault, number>> = {};
  readonly #target: URL;
  readonly #deadMs: DeadMs;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #next: CommitFault | undefined;

  private constructor(target: URL, deadMs: DeadMs) {
    this.#target = target;
    this.#deadMs = deadMs;
    this.#server = createServer((client) => this.#link(client));
  }

  static async start(databaseUrl: string, deadMs: DeadMs): Promise<DatabaseProxy> {
    const proxy = new DatabaseProxy(new URL(databaseUrl), deadMs);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    const url = new URL(this.#target);
    url.hostname = '127.0.0.1';
    url.port = String((this.#server.address() as AddressInfo).port);
    return url.href;
  }

  disturbNextCommit(fault: CommitFault): void {
    this.#next = fault;
  }

  async stop(): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
  }

  #link(client: Socket): void {
    const target = connect(Number(this.#target.port) || 5_432, this.#target.hostname);
    let fault: CommitFault | undefined;
    const cut = (): void => {
      client.destroy();
      target.destroy();
    };
    for (const socket of [client, target]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', cut);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        // The other side of a connection that is silent is not told.
        if (fault === undefined) cut();
      });
    }
    client.on('data', (data) => {
      if (fault === undefined && this.#next !== undefined && COMMIT.test(data.toString('latin1'))) {
        fault = this.#next;
        this.#next = undefined;
        this.happened[fault] = (this.happened[fault] ?? 0) + 1;
        if (fault === 'COMMIT lost') cut();
        if (fault === 'COMMIT comes late') {
          setTimeout(() => target.write(data), LATE_MS).unref();
          client.destroy();
        }
        setTimeout(() => target.destroy(), this.#deadMs.server).unref();
        setTimeout(cut, this.#deadMs.client).unref();
      }
      const isPassed = fault === undefined || fault.startsWith('answer');
      if (isPassed && !target.destroyed) target.write(data);
    });
    target.on('data', (data) => {
      if (fault === undefined) client.write(data);
      else if (fault === 'answer to COMMIT lost') cut();
    });
  }
}
