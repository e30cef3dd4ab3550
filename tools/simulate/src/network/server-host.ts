import type { History } from '../history.js';
import type { ServerBreak } from '../server/breaks.js';
import type { Entry } from '../server/keyspace.js';
import type { LuaScripts } from '../server/lua-scripts.js';
import { ModelServer, type ScriptRun } from '../server/model-server.js';
import { noRight, type Reply } from '../server/reply.js';
import { nameOfScript } from '../server/script-names.js';
import { BEGINNING } from '../world/virtual-node.js';
import type { Machine } from './machine.js';

/** The server's end of a connection. */
export interface ServerEnd {
  /** The process at the other end. */
  readonly client: string;
  /** The server has closed it. */
  closed(): void;
  hear(channel: string, message: string): void;
}

/** How long a replica may lag behind its master. */
const MOST_LAG_MS = 500;

/** A server on its machine, with its connections, and a replica that lags behind. */
export class ServerHost {
  readonly model: ModelServer;
  readonly machine: Machine;
  readonly #connections = new Set<ServerEnd>();
  #isUp = true;
  /** How far the clock has been stepped. */
  #steppedMs = 0;
  /** What the keys were after each command, for as long as a replica may lag. */
  #past: { readonly at: number; readonly entries: ReadonlyMap<string, Entry> }[] = [];

  /** For whom it executes a command, and whether on a connection that the client has given up. */
  #client = '';
  #isLate = false;

  /** The processes that may not subscribe. */
  readonly #deaf = new Set<string>();

  constructor(
    machine: Machine,
    scripts: LuaScripts,
    history: History,
    readonly isQuiet: boolean,
    breaks?: ServerBreak,
    /** Of a node of a quorum, its number. */
    index?: number,
  ) {
    this.machine = machine;
    const micros = (): number => Math.round(this.clockMs * 1000);
    const ran = (run: ScriptRun): void => {
      const script = nameOfScript(run.script);
      if (script === 'probe' || script === undefined) return;
      const of = index === undefined ? {} : { server: machine.name };
      history.tell({ type: 'ran', by: this.#client, ...run, script, ...of });
      for (const key of this.#isLate ? run.keys : []) {
        const [, name] = /^lock:\{(.*)\}$/.exec(key) ?? [];
        if (name !== undefined) history.tell({ type: 'arrived late', key: name });
      }
      if (script !== 'revoke' || run.reply === null) return;
      const key = /\{(.*)\}$/.exec(run.keys[0] ?? '')?.[1] ?? '';
      history.tell({ type: 'taken away', key });
    };
    this.model = new ModelServer({
      scripts,
      micros,
      breaks,
      ran,
      ...(index === undefined ? {} : { index }),
    });
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** What its clock shows, in milliseconds since 1970. */
  get clockMs(): number {
    return BEGINNING + this.#steppedMs + this.machine.time.now;
  }

  connect(end: ServerEnd): void {
    this.#connections.add(end);
  }

  disconnect(end: ServerEnd): void {
    this.#connections.delete(end);
    this.model.unsubscribe(end);
  }

  execute(client: string, name: string, args: readonly string[], isLate: boolean): Reply {
    this.#client = client;
    this.#isLate = isLate;
    const reply = this.model.command(name, args);
    this.#remember();
    return reply;
  }

  subscribe(end: ServerEnd, [channel = '']: readonly string[]): Reply {
    if (this.#deaf.has(end.client)) return noRight('subscribe');
    this.model.subscribe(channel, end);
    return 1;
  }

  /** The process may not subscribe any more, and the connection on which it has done so is closed. */
  deafen(client: string): void {
    this.#deaf.add(client);
    for (const end of [...this.#connections]) {
      if (end.client !== client || !this.model.listens(end)) continue;
      this.disconnect(end);
      end.closed();
    }
  }

  undeafen(client: string): void {
    this.#deaf.delete(client);
  }

  #remember(): void {
    const { now } = this.machine.time;
    this.#past.push({ at: now, entries: this.model.copy() });
    while ((this.#past[1]?.at ?? Infinity) < now - MOST_LAG_MS) this.#past.shift();
  }

  /** Closes all connections, and accepts none until `start`. */
  stop(): void {
    this.#isUp = false;
    for (const end of [...this.#connections]) {
      this.disconnect(end);
      end.closed();
    }
  }

  /**
   * @param lagMs how much of the last writes is lost; Infinity: all data
   * @param isOld whether a replica that has run for long takes its place
   */
  start(lagMs: number, isOld = false): void {
    this.#isUp = true;
    const until = this.machine.time.now - lagMs;
    const entries =
      this.#past.findLast(({ at }) => at <= until)?.entries ?? new Map<string, Entry>();
    this.model.restart(lagMs === 0 ? this.model.copy() : entries, isOld);
    this.#past = [];
    this.#remember();
  }

  stepClock(byMs: number): void {
    this.#steppedMs += byMs;
  }
}
