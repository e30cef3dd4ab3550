import { AsyncResource } from 'node:async_hooks';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Duplex } from 'node:stream';

/** Terminate: the last message of a client. */
const TERMINATE = Buffer.from([0x58, 0, 0, 0, 4]);
/** ReadyForQuery outside a transaction. */
const IDLE = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);
/** CommandComplete and ReadyForQuery. */
const DISCARDED = Buffer.concat([Buffer.from('C\0\0\0\x10DISCARD ALL\0'), IDLE]);
const DISCARD_ALL = Buffer.from('Q\0\0\0\x10DISCARD ALL\0');

/** More would take the connections of other spec files. */
const KEPT = 2;

/** A session without a client. */
interface Session {
  readonly socket: Socket;
  /** What the server said when it began. */
  readonly greeting: Buffer;
  /** The server's port, and the first message of the client: its user, its database and its settings. */
  readonly key: string;
  /** Whether it has become as new. */
  renewed: Promise<boolean>;
}

const kept = new Set<Session>();

/**
 * The `stream` of a client of node-postgres, which keeps the session of PostgreSQL after the client has closed it, for
 * the next client that would begin the same one. A session costs the server some 50 ms: a new process. Before it has
 * another client, it is made as new (`DISCARD ALL`). A session that is not idle when it is closed, or whose stream is
 * destroyed, ends as usual.
 */
export function keptSession(): Duplex {
  return new KeptSession();
}

/** Ends the sessions that are kept. */
export async function endKeptSessions(): Promise<void> {
  const sessions = [...kept];
  kept.clear();
  await Promise.all(
    sessions.map(async ({ socket, renewed }) => {
      if (!(await renewed)) return;
      socket.removeAllListeners().ref().resume();
      const closed = once(socket, 'close');
      socket.end(TERMINATE);
      await closed;
    }),
  );
}

class KeptSession extends Duplex {
  /** As with a socket of its own, the client's code runs in the async context in which it was made. */
  readonly #context = new AsyncResource('KeptSession');
  #address = { port: 0, host: '' };
  #session: Session | undefined;
  #socket: Socket | undefined;
  #isIdle = false;

  connect(port: number, host: string): this {
    this.#address = { port, host };
    process.nextTick(() => this.emit('connect'));
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    this.#socket?.ref();
    return this;
  }

  unref(): this {
    this.#socket?.unref();
    return this;
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#socket === undefined) {
      this.#begin(chunk).then(() => done(), done);
      return;
    }
    if (
      this.#isIdle &&
      this.#session !== undefined &&
      kept.size < KEPT &&
      chunk.equals(TERMINATE)
    ) {
      this.#leave(this.#session);
      return done();
    }
    this.#isIdle = false;
    this.#socket.write(chunk, done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), 'utf8', done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket?.end();
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket?.destroy();
    done(error);
  }

  async #begin(startup: Buffer): Promise<void> {
    const { port, host } = this.#address;
    const key = `${port} ${startup.toString('latin1')}`;
    const session = [...kept].find((one) => one.key === key);
    if (session !== undefined) {
      kept.delete(session);
      if (await session.renewed) return this.#resume(session);
    }
    if (this.destroyed) return;
    const socket = connect(port, host).setNoDelay();
    this.#listenTo(socket, (greeting) => ({
      socket,
      greeting,
      key,
      renewed: Promise.resolve(true),
    }));
    socket.write(startup);
  }

  #resume(session: Session): void {
    if (this.destroyed) return void session.socket.destroy();
    this.#session = session;
    session.socket.removeAllListeners().ref();
    this.#listenTo(session.socket);
    this.#isIdle = true;
    this.#context.runInAsyncScope(() => this.push(session.greeting));
  }

  /** @param begun makes the session of a new socket from what the server says until it is idle */
  #listenTo(socket: Socket, begun?: (greeting: Buffer) => Session): void {
    const received: Buffer[] = [];
    const inContext = (act: () => unknown): void => void this.#context.runInAsyncScope(act);
    this.#socket = socket;
    socket.on('data', (data) => {
      this.#isIdle = endsIdle(data);
      if (this.#session === undefined) {
        received.push(data);
        if (this.#isIdle) this.#session = begun?.(Buffer.concat(received));
      }
      inContext(() => this.push(data));
    });
    socket.on('end', () => inContext(() => this.push(null)));
    socket.on('error', (error) => inContext(() => this.destroy(error)));
    socket.on('close', () => inContext(() => this.destroy()));
  }

  #leave(session: Session): void {
    this.#socket = undefined;
    session.renewed = renew(session);
    kept.add(session);
    this.push(null);
    this.destroy();
  }
}

async function renew(session: Session): Promise<boolean> {
  const { socket } = session;
  socket.removeAllListeners();
  return new Promise((resolve) => {
    const end = (): void => {
      kept.delete(session);
      socket.destroy();
      resolve(false);
    };
    socket.on('error', end).on('close', end);
    socket.once('data', (data) => {
      socket.on('data', end); // such as the reason why the server ends it
      if (!data.equals(DISCARDED)) return end();
      socket.unref();
      resolve(true);
    });
    socket.write(DISCARD_ALL);
  });
}

function endsIdle(data: Buffer): boolean {
  return data.subarray(-IDLE.length).equals(IDLE);
}
