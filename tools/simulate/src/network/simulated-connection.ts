import { EventEmitter } from 'node:events';
import type {
  RedisClient,
  RedisConnection,
} from '../../../../libs/nestjs-locked/dist/modules/redis/connection/server/redis-client.js';
import { ErrorReply, type Reply, StatusReply } from '../server/reply.js';
import { type Carried, latencyOf, Link } from './link.js';
import type { Machine } from './machine.js';
import type { ServerEnd, ServerHost } from './server-host.js';

/** Of those that the library sets, what the double obeys. */
interface Options {
  readonly retryStrategy?: (times: number) => number | null;
}

interface Pending {
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

const CLOSED = 'Connection is closed.';

/** A client of one server, for the `connection` of a lock service. Like that of a user, it stays as it is. */
export class SimulatedClient implements RedisClient {
  readonly options: { readonly host: string; readonly port: number };
  /** All connections of this process, so that faults can choose among them. */
  readonly connections: SimulatedConnection[] = [];

  constructor(
    readonly machine: Machine,
    readonly server: ServerHost,
  ) {
    this.options = { host: server.machine.name, port: 6379 };
  }

  isParted = false;

  /** Nothing gets through, on no connection, until `heal`. */
  part(): void {
    this.isParted = true;
    for (const connection of this.connections) connection.part();
  }

  heal(): void {
    this.isParted = false;
    for (const connection of this.connections) connection.heal();
  }

  /** @param isNoticed whether the system of the dead process closes its connections, or its machine is gone */
  killed(isNoticed: boolean): void {
    for (const connection of this.connections) connection.killed(isNoticed);
  }

  duplicate(override: object): RedisConnection {
    const connection = new SimulatedConnection(this.machine, this.server, override, this);
    this.connections.push(connection);
    return connection;
  }
}

/** What the library sees of ioredis, over a simulated network. */
export class SimulatedConnection extends EventEmitter implements RedisConnection {
  status = 'wait';
  readonly options: Options & { readonly db?: number };
  stream?: NonNullable<RedisConnection['stream']>;
  readonly commandQueue: Pending[] = [];
  readonly #machine: Machine;
  readonly #server: ServerHost;
  readonly #client: Pick<SimulatedClient, 'isParted'>;
  #socket: Socket | undefined;
  #isManuallyClosed = false;
  #attempts = 0;

  constructor(
    machine: Machine,
    server: ServerHost,
    options: Options,
    client: Pick<SimulatedClient, 'isParted'>,
  ) {
    super();
    this.#client = client;
    this.#machine = machine;
    this.#server = server;
    this.options = { ...options };
  }

  // ---- commands ---------------------------------------------------------------------------------------------

  evalsha(sha: string, count: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.call('EVALSHA', sha, count, ...rest);
  }

  eval(script: string, count: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.call('EVAL', script, count, ...rest);
  }

  script(subcommand: 'LOAD', script: string): Promise<unknown> {
    return this.call('SCRIPT', subcommand, script);
  }

  info(section: string): Promise<string> {
    return this.call('INFO', section) as Promise<string>;
  }

  get(key: string): Promise<string | null> {
    return this.call('GET', key) as Promise<string | null>;
  }

  set(key: string, value: string, mode: 'PX', milliseconds: number): Promise<unknown> {
    return this.call('SET', key, value, mode, milliseconds);
  }

  del(key: string): Promise<unknown> {
    return this.call('DEL', key);
  }

  scan(
    cursor: string,
    match: 'MATCH',
    pattern: string,
    count: 'COUNT',
    size: number,
  ): Promise<[cursor: string, keys: string[]]> {
    const answer = this.call('SCAN', cursor, match, pattern, count, size);
    return answer as Promise<[cursor: string, keys: string[]]>;
  }

  subscribe(channel: string): Promise<unknown> {
    return this.call('SUBSCRIBE', channel);
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.call('UNSUBSCRIBE', channel);
  }

  cluster(subcommand: 'MYID' | 'SLOTS'): Promise<unknown> {
    return this.call('CLUSTER', subcommand);
  }

  asking(): Promise<unknown> {
    return this.call('ASKING');
  }

  ping(): Promise<unknown> {
    return this.call('PING');
  }

  call(command: string, ...args: (string | number)[]): Promise<unknown> {
    const socket = this.#socket;
    if (socket === undefined || this.status === 'connecting') {
      const reason = "Stream isn't writeable and enableOfflineQueue options is false";
      return Promise.reject(new Error(reason));
    }
    return new Promise((resolve, reject) => {
      const pending = { resolve, reject };
      this.commandQueue.push(pending);
      socket.send(command, args.map(String), (reply) => this.#answered(pending, reply));
    });
  }

  // ---- connecting -------------------------------------------------------------------------------------------

  connect(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.once('ready', resolve);
      this.once('close', () => reject(new Error(CLOSED)));
      this.#isManuallyClosed = false;
      this.#connect();
    });
  }

  disconnect(reconnect = false): void {
    if (!reconnect) this.#isManuallyClosed = true;
    if (this.#socket !== undefined) return this.#socket.destroy();
    if (this.status === 'reconnecting' || this.status === 'wait') this.#end();
  }

  // ---- faults -----------------------------------------------------------------------------------------------

  killed(isNoticed: boolean): void {
    if (isNoticed) this.#socket?.destroy();
    else this.#socket?.part();
  }

  /** Something on the way closes it at both ends. */
  cut(): void {
    this.#socket?.cut();
  }

  part(): void {
    this.#socket?.part();
  }

  heal(): void {
    this.#socket?.heal();
  }

  /** Its two directions, if it is open. */
  get links(): { readonly there: Link; readonly back: Link } | undefined {
    return this.#socket;
  }

  // ---- sockets ----------------------------------------------------------------------------------------------

  #connect(): void {
    this.status = 'connecting';
    const socket = new Socket(this.#machine, this.#server, {
      connected: () => this.#connected(socket),
      heard: (data) => this.#data.emit('data', data),
      message: (channel, message) => this.emit('message', channel, message),
      closed: (error) => this.#closed(socket, error),
    });
    this.#socket = socket;
    if (this.#client.isParted) socket.part();
    this.#data = new EventEmitter();
    this.stream = {
      cork: () => {},
      uncork: () => {},
      destroy: (error) => socket.destroy(error),
      on: (event: string, listener: (...args: never[]) => void) =>
        this.#data.on(event, listener as (...args: unknown[]) => void),
    };
  }

  #data = new EventEmitter();

  #connected(socket: Socket): void {
    if (socket !== this.#socket) return;
    this.status = 'connect';
    this.emit('connect');
    // ioredis asks whether the server has loaded its data.
    this.info('default').then(
      () => {
        if (socket !== this.#socket || this.status !== 'connect') return;
        this.status = 'ready';
        this.#attempts = 0;
        this.emit('ready');
      },
      () => {}, // closed
    );
  }

  #answered(pending: Pending, reply: Reply): void {
    if (this.commandQueue[0] !== pending) throw new Error('an answer has come out of order');
    this.commandQueue.shift();
    if (reply instanceof ErrorReply) {
      const error = new Error(reply.message);
      error.name = 'ReplyError';
      return pending.reject(error);
    }
    pending.resolve(plain(reply));
  }

  #closed(socket: Socket, error: Error | undefined): void {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    if (error !== undefined) this.emit('error', error);
    this.status = 'close';
    this.emit('close');
    for (const { reject } of this.commandQueue.splice(0)) reject(new Error(CLOSED));
    if (this.#isManuallyClosed) return this.#end();
    this.#attempts += 1;
    const delayMs = this.options.retryStrategy?.(this.#attempts) ?? null;
    if (delayMs === null) return this.#end();
    this.status = 'reconnecting';
    this.#machine.after(delayMs, () => {
      if (this.status === 'reconnecting') this.#connect();
    });
  }

  #end(): void {
    this.status = 'end';
    this.emit('end');
  }
}

/** Status replies are strings for ioredis, and errors inside an answer are values. */
function plain(reply: Reply): unknown {
  if (reply instanceof StatusReply) return reply.text;
  return Array.isArray(reply) ? reply.map((item) => plain(item as Reply)) : reply;
}

interface SocketListener {
  connected(): void;
  heard(data: Buffer): void;
  message(channel: string, message: string): void;
  closed(error: Error | undefined): void;
}

/** One connection of TCP, with both its ends. */
class Socket implements ServerEnd {
  readonly client: string;
  readonly #machine: Machine;
  readonly #server: ServerHost;
  readonly #listener: SocketListener;
  /** To the server. */
  readonly there: Link;
  /** From the server. */
  readonly back: Link;
  #isOver = false;

  constructor(machine: Machine, server: ServerHost, listener: SocketListener) {
    this.client = machine.name;
    this.#machine = machine;
    this.#server = server;
    this.#listener = listener;
    const latency = latencyOf(machine.random, server.isQuiet);
    this.there = new Link(machine.time, latency);
    this.back = new Link(machine.time, latency);
    this.there.send(() => this.#atServer(() => this.#accept()), { kind: 'connect' });
  }

  send(name: string, args: readonly string[], answered: (reply: Reply) => void): void {
    this.there.send(() => this.#atServer(() => this.#execute(name, args, answered)), {
      kind: 'command',
      name,
      args,
    });
  }

  /** Closes it, after what was sent. */
  destroy(error?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.there.send(() => this.#server.disconnect(this), { kind: 'closed' });
    this.back.cut();
    this.#machine.after(0, () => this.#listener.closed(error));
  }

  hear(channel: string, message: string): void {
    this.#deliver({ kind: 'message', text: message }, () => {
      this.#listener.heard(Buffer.from(message));
      this.#listener.message(channel, message);
    });
  }

  /** The server, or its machine, has closed it. */
  closed(): void {
    this.there.cut();
    this.#deliver({ kind: 'closed' }, () => this.destroy());
  }

  #accept(): void {
    if (!this.#server.isUp) {
      const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
      return this.#deliver({ kind: 'refused' }, () => this.destroy(refused));
    }
    this.#server.connect(this);
    this.#deliver({ kind: 'connected' }, () => this.#listener.connected());
  }

  #execute(name: string, args: readonly string[], answered: (reply: Reply) => void): void {
    if (!this.#server.isUp) return;
    const reply =
      name === 'SUBSCRIBE'
        ? this.#server.subscribe(this, args)
        : this.#server.execute(this.client, name, args, this.#isOver);
    this.#deliver({ kind: 'reply', name, reply }, () => {
      this.#listener.heard(Buffer.from('+'));
      answered(reply);
    });
  }

  #atServer(work: () => void): void {
    this.#server.machine.run(work);
  }

  #deliver(carried: Carried, work: () => void): void {
    this.back.send(
      () =>
        this.#machine.run(() => {
          if (!this.#isOver) work();
        }),
      carried,
    );
  }

  cut(): void {
    this.#server.disconnect(this);
    this.closed();
  }

  /** Nothing arrives at either end until `heal`. */
  part(): void {
    this.there.hold();
    this.back.hold();
  }

  heal(): void {
    this.there.release();
    this.back.release();
  }
}
