import { type Command, Redis, type RedisOptions } from 'ioredis';
import { currentPurchase, type Purchase } from './purchase.js';

const HANDSHAKE = new Set(['hello', 'client', 'select', 'auth', 'ping', 'info']);
const PROLONGS = new Set(['pexpire', 'eval', 'evalsha']);
const REMOVES = new Set(['del', 'multi', 'eval', 'evalsha']);

/** What all clients of one process have in common. */
export interface RedisRecord {
  commands: number;
  /**
   * The callers of this process. What a timer or a message sets off belongs to the caller that holds, or to the only
   * one.
   */
  readonly purchases: Map<string, Purchase>;
  writesDown: boolean;
}

/**
 * A client that counts and writes down what is sent, and can stop before a command or before its reply is delivered.
 * Otherwise it behaves as usual.
 */
export class RecordedRedis extends Redis {
  readonly #seen = new WeakSet<Command>();

  constructor(
    private readonly address: string,
    private readonly record: RedisRecord,
    options: Partial<RedisOptions> = {},
  ) {
    super(address, {
      maxRetriesPerRequest: null,
      retryStrategy: () => 100,
      ...(options as Omit<RedisOptions, 'replyMapping'>),
    });
    this.on('error', () => {}); // servers are taken away on purpose
  }

  get bytes(): number {
    const stream = this.stream as unknown as { bytesRead: number; bytesWritten: number };
    return stream === undefined ? 0 : stream.bytesRead + stream.bytesWritten;
  }

  override duplicate(override: Partial<RedisOptions> = {}): Redis {
    return new RecordedRedis(this.address, this.record, { ...this.options, ...override });
  }

  override sendCommand(command: Command, stream?: never): unknown {
    if (this.#seen.has(command) || HANDSHAKE.has(command.name)) {
      return super.sendCommand(command, stream);
    }
    this.#seen.add(command);
    this.record.commands += 1;
    const purchase = currentPurchase.getStore() ?? this.#ownerOfTimers();
    if (purchase === undefined) return super.sendCommand(command, stream);

    const phase = purchase.phase;
    this.#stopBeforeReply(command, purchase);
    if (phase === 'holding' && PROLONGS.has(command.name) && purchase.stopsAt('renewal')) {
      return this.#sendAfter(purchase.reach('renewal'), command, stream);
    }
    if (phase === 'returning' && REMOVES.has(command.name) && purchase.stopsAt('removal')) {
      return this.#sendAfter(purchase.reach('removal'), command, stream);
    }
    return super.sendCommand(command, stream);
  }

  #ownerOfTimers(): Purchase | undefined {
    const all = [...this.record.purchases.values()];
    return all.length === 1 ? all[0] : all.find(({ phase }) => phase === 'holding');
  }

  #sendAfter(stop: Promise<void>, command: Command, stream?: never): Promise<unknown> {
    const sent = stop.then(() => super.sendCommand(command, stream));
    sent.catch(() => {}); // the sender of the command has its promise
    return command.promise as Promise<unknown>;
  }

  #stopBeforeReply(command: Command, purchase: Purchase): void {
    const deliver = command.resolve;
    const asks = purchase.phase === 'asking';
    command.resolve = (reply: unknown) => {
      if (this.record.writesDown) purchase.note('command', `${inWords(command)} → ${short(reply)}`);
      if (!asks) return deliver(reply);
      const point = showsExpired(command, reply) ? 'saw expired' : 'first reply';
      if (!purchase.stopsAt(point)) return deliver(reply);
      void purchase.reach(point).then(() => deliver(reply));
    };
  }
}

function showsExpired(command: Command, reply: unknown): boolean {
  return command.name === 'get' && reply !== null && Number(text(reply)) < Date.now();
}

function inWords(command: Command): string {
  const name = command.name.toUpperCase();
  return name === 'EVAL' || name === 'EVALSHA' ? 'script' : name;
}

function short(reply: unknown): string {
  const all = Array.isArray(reply) ? reply.map(text).join(' ') : text(reply);
  return all.length > 24 ? `${all.slice(0, 23)}…` : all;
}

function text(reply: unknown): string {
  if (reply === null || reply === undefined) return 'nil';
  if (Buffer.isBuffer(reply)) return reply.toString();
  return typeof reply === 'string' ? reply : JSON.stringify(reply);
}
