import { createHash } from 'node:crypto';
import type { ServerBreak } from './breaks.js';
import { type CommandContext, execute } from './commands.js';
import { type Entry, Keyspace } from './keyspace.js';
import type { LuaScripts } from './lua-scripts.js';
import { ErrorReply, FULL, NO_REPLICAS, noRight, noRightInScript, type Reply } from './reply.js';

/** What a connection hears without having asked. */
export interface Subscriber {
  hear(channel: string, message: string): void;
}

export interface ModelServerOptions {
  readonly scripts: LuaScripts;
  /** The server's clock, in microseconds since 1970. */
  readonly micros: () => number;
  /** What it does wrong. */
  readonly breaks?: ServerBreak | undefined;
  /** Tells its runs from those of other servers. @default 0 */
  readonly index?: number;
  /** Called after each script that was not refused. */
  readonly ran?: (run: ScriptRun) => void;
}

/** What a script was given, and what it did that others see. */
export interface ScriptRun {
  readonly script: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly reply: Reply;
  readonly micros: number;
  readonly listening: readonly string[];
  readonly messages: readonly (readonly [channel: string, message: string])[];
}

/** How long it has run when a history begins. */
const AGE_MICROS = 3_600e6;
/** How often a server may start in one history. */
const MOST_RUNS = 1_000;

/** Commands that a server with a full memory refuses, of those that the library uses. */
const NEEDS_MEMORY = new Set(['SET', 'ZADD']);
/** Once one of these was sent, a script may send the others, too: it must not end half-way. */
const WRITES = new Set(['SET', 'ZADD', 'ZREM', 'DEL', 'PEXPIRE']);

/** The hashes of scripts, which are computed once. */
const SHAS = new Map<string, string>();

/** What one Redis server does with the commands that the library sends. It has no network; see `network/`. */
export class ModelServer {
  readonly #options: ModelServerOptions;
  #keyspace: Keyspace;
  #runId = 1;
  /** When it has started, by its clock. */
  #startedAt: number;
  /** The scripts that it knows, by their hash. */
  readonly #known = new Map<string, string>();
  readonly #channels = new Map<string, Set<Subscriber>>();
  /** Whether its memory is full, and it may evict nothing. */
  isFull = false;
  /** Whether it refuses to write. What it reads, it answers, and it publishes messages. */
  isRefusingWrites = false;
  /** The commands to which the library has no right. */
  readonly refused = new Set<string>();

  constructor(options: ModelServerOptions) {
    this.#options = options;
    this.#startedAt = options.micros() - AGE_MICROS;
    this.#keyspace = this.#holding(new Map());
  }

  // ---- commands ---------------------------------------------------------------------------------------------

  command(name: string, args: readonly string[]): Reply {
    const [first = ''] = args;
    if (this.refused.has(name.toUpperCase())) return noRight(name.toLowerCase());
    if (this.isFull && NEEDS_MEMORY.has(name.toUpperCase())) return FULL;
    if (this.isRefusingWrites && WRITES.has(name.toUpperCase())) return NO_REPLICAS;
    switch (name.toUpperCase()) {
      case 'SCRIPT':
        return this.#learn(args[1] ?? '');
      case 'EVAL':
        this.#learn(first);
        return this.#run(first, args);
      case 'EVALSHA': {
        const script = this.#known.get(first);
        if (script !== undefined) return this.#run(script, args);
        return new ErrorReply('NOSCRIPT No matching script. Please use EVAL.');
      }
      case 'SCAN':
        return ['0', this.#keyspace.keys()];
      default:
        return execute(this.#context, name, args);
    }
  }

  subscribe(channel: string, subscriber: Subscriber): void {
    const subscribers = this.#channels.get(channel) ?? new Set();
    this.#channels.set(channel, subscribers.add(subscriber));
  }

  listens(subscriber: Subscriber): boolean {
    return [...this.#channels.values()].some((subscribers) => subscribers.has(subscriber));
  }

  unsubscribe(subscriber: Subscriber): void {
    for (const subscribers of this.#channels.values()) subscribers.delete(subscriber);
  }

  // ---- what happens to it -----------------------------------------------------------------------------------

  copy(): ReadonlyMap<string, Entry> {
    return this.#keyspace.copy();
  }

  /**
   * It starts again, with these keys. Its connections are gone, and it knows no script.
   * @param entries what was saved, or what a replica had
   * @param isOld whether a server that has run for long takes its place
   */
  restart(entries: ReadonlyMap<string, Entry>, isOld = false): void {
    this.#keyspace = this.#holding(entries);
    this.#runId += 1;
    if (!isOld) this.#startedAt = this.#options.micros();
    this.#known.clear();
    this.#channels.clear();
  }

  /** The text of a script that it knows. */
  scriptOf(sha: string): string | undefined {
    return this.#known.get(sha);
  }

  forgetScripts(): void {
    this.#known.clear();
  }

  #holding(entries: ReadonlyMap<string, Entry>): Keyspace {
    return new Keyspace(() => Math.floor(this.#options.micros() / 1000), entries);
  }

  #learn(script: string): string {
    const sha = SHAS.get(script) ?? createHash('sha1').update(script).digest('hex');
    SHAS.set(script, sha);
    this.#known.set(sha, script);
    return sha;
  }

  /** The clock stands still while a script runs, as it does in Redis. */
  #run(script: string, [, count = '0', ...rest]: readonly string[]): Reply {
    const keys = rest.slice(0, Number(count));
    const args = rest.slice(Number(count));
    const context = this.#context;
    const { scripts, breaks, ran, micros } = this.#options;
    const messages: [channel: string, message: string][] = [];
    let hasWritten = false;
    const call = (name: string, given: readonly string[]): Reply => {
      if (this.refused.has(name)) return noRightInScript(name.toLowerCase());
      if (this.isRefusingWrites && WRITES.has(name)) return NO_REPLICAS;
      if (this.isFull && !hasWritten && NEEDS_MEMORY.has(name)) return FULL;
      hasWritten ||= WRITES.has(name);
      const broken = breaks?.command?.({ context, name, args: given });
      if (name === 'PUBLISH') messages.push([given[0] ?? '', given[1] ?? '']);
      return broken === undefined ? execute(context, name, given) : broken;
    };
    const run = (given: readonly string[]): Reply => scripts.run(script, keys, given, call);
    const reply = breaks?.script?.({ script, args, micros: micros(), run }) ?? run(args);
    if (ran !== undefined && !(reply instanceof ErrorReply)) {
      const heard = [...this.#channels].filter(([, subscribers]) => subscribers.size > 0);
      const listening = heard.map(([channel]) => channel);
      ran({ script, keys, args, reply, micros: micros(), listening, messages });
    }
    return reply;
  }

  /** How long it has run, by its clock: whole seconds, of which Redis counts those that have begun. */
  get uptimeSeconds(): number {
    const second = (micros: number): number => Math.floor(micros / 1e6);
    return second(this.#options.micros()) - second(this.#startedAt);
  }

  get #info(): string {
    const { index = 0, breaks } = this.#options;
    const isHidden = breaks?.hidesStarts === true;
    const runId = index * MOST_RUNS + (isHidden ? 1 : this.#runId);
    return [
      'redis_version:7.4.0',
      `run_id:${String(runId).padStart(40, '0')}`,
      `uptime_in_seconds:${isHidden ? AGE_MICROS / 1e6 : this.uptimeSeconds}`,
      'role:master',
      'loading:0',
      'maxmemory:0',
      '',
    ].join('\r\n');
  }

  get #context(): CommandContext {
    return {
      keyspace: this.#keyspace,
      micros: this.#options.micros,
      publish: (channel, message) => {
        const subscribers = [...(this.#channels.get(channel) ?? [])];
        for (const subscriber of subscribers) subscriber.hear(channel, message);
        return subscribers.length;
      },
      listeners: (channel) => this.#channels.get(channel)?.size ?? 0,
      info: () => this.#info,
    };
  }
}
