import type { LuaScripts } from '../../../simulate/dist/server/lua-scripts.js';
import { Stage } from '../../../simulate/dist/stage.js';
import type { Action, ActionName, LogLine, ProcessView, Script, View } from '../view.js';
import { ByHand } from './by-hand.js';
import { Calls } from './calls.js';
import { Flights } from './flights.js';
import { logLine } from './log-text.js';
import { type Scene, SCENE_OF } from './scenes.js';
import { ServerWatch } from './server-watch.js';
import { SteppedTime } from './stepped-time.js';

/** While a message is shown, a millisecond of the world takes so many of the reader. */
const SLOW = 300;
/** A message that is late is not shown in slow motion all the way: so much of each wait is. */
const SLOW_MS = 1.5;
const SHOWN_MS = 20_000;
const SHOWN_LINES = 60;

/** A history that is played as slowly as a reader can follow. What was done by hand is part of it. */
export class PlayedHistory {
  readonly #time = new SteppedTime();
  readonly #scene: Scene;
  readonly #stage: Stage;
  readonly #byHand: ByHand;
  readonly #calls = new Calls();
  readonly #server: ServerWatch;
  readonly #flights: Flights;
  readonly #log: LogLine[] = [];
  /** Those to come, and those that are over. */
  #actions: readonly Action[];
  #done = 0;
  #lastActs = 0;
  #heard = 0;
  /** When the last event was. */
  #at = 0;
  /** What the reader sees: not before the last event, and before the next one. */
  #shown = 0;

  constructor(scripts: LuaScripts, { seed, scene, actions }: Script) {
    this.#scene = SCENE_OF[scene](seed);
    this.#stage = new Stage(this.#time, this.#scene.plan, scripts);
    this.#byHand = new ByHand(this.#stage, this.#scene.plan);
    this.#server = new ServerWatch(this.#stage.server);
    this.#flights = new Flights(this.#stage);
    this.#actions = actions;
  }

  get lines(): readonly string[] {
    return this.#stage.history.lines.map((line) => JSON.stringify(line));
  }

  /** All that was done by hand so far, and all that the link says of what is to come. */
  get actions(): readonly Action[] {
    return this.#actions;
  }

  // ---- time -------------------------------------------------------------------------------------------------

  async runUntil(end: number): Promise<void> {
    while (!this.#isOver && this.#nextAt <= end) await this.#next();
    this.#shown = Math.max(this.#shown, Math.min(end, this.#endAt));
  }

  /** @param forMs of the reader's time */
  async play(forMs: number, speed: number): Promise<void> {
    let left = forMs * speed;
    while (!this.#isOver) {
      const slowUntil = Math.min(this.#nextAt, this.#at + SLOW_MS);
      const slow = this.#flights.isTelling ? Math.max(0, slowUntil - this.#shown) : 0;
      const shownSlowly = Math.min(slow, left / SLOW);
      left -= shownSlowly * SLOW;
      const rest = Math.min(this.#nextAt - this.#shown - shownSlowly, left);
      left -= rest;
      this.#shown += shownSlowly + rest;
      if (left <= 0) return;
      await this.#next();
    }
  }

  /** Runs until a reader sees something else: a message sets out or arrives, or something is told. */
  async step(): Promise<void> {
    const before = this.#sign;
    while (!this.#isOver && this.#sign === before) await this.#next();
  }

  /** Does something now: before the next event, and after the last one. What was still to be done is forgotten. */
  async act(what: ActionName, process: string | undefined): Promise<void> {
    const atMs = Math.floor(this.#shown * 1000 + 1) / 1000;
    await this.runUntil(atMs - 0.0005);
    this.#actions = [...this.#actions.slice(0, this.#done), { what, process, atMs }];
    await this.#next();
  }

  get #nextAt(): number {
    const action = this.#actions[this.#done]?.atMs ?? Infinity;
    return Math.min(action, this.#time.nextAt, this.#lastActAt);
  }

  get #lastActAt(): number {
    return this.#scene.lastActs[this.#lastActs]?.atMs ?? Infinity;
  }

  get #endAt(): number {
    return this.#scene.lastActs.at(-1)?.atMs ?? 0;
  }

  get #isOver(): boolean {
    return this.#lastActAt === Infinity;
  }

  /** In a moment, what is done by hand comes first, and what ends the history last. */
  async #next(): Promise<void> {
    const action = this.#actions[this.#done];
    const at = this.#nextAt;
    if (action?.atMs === at) {
      this.#done += 1;
      await this.#time.runAt(at, () => this.#byHand.act(action));
    } else if (this.#time.nextAt <= at) {
      await this.#time.step(at);
    } else {
      const { act } = this.#scene.lastActs[this.#lastActs] ?? {};
      this.#lastActs += 1;
      await this.#time.runAt(at, () => act?.(this.#stage));
    }
    this.#at = at;
    this.#shown = at;
    this.#byHand.keep();
    this.#look();
  }

  // ---- what is seen -----------------------------------------------------------------------------------------

  #look(): void {
    const { lines } = this.#stage.history;
    for (; this.#heard < lines.length; this.#heard += 1) {
      const line = lines[this.#heard];
      if (line === undefined) break;
      const said = logLine(line, this.#calls.isOfLost(line));
      this.#calls.hear(line);
      this.#server.hear(line);
      if (said !== undefined) this.#log.push(said);
    }
    this.#flights.look();
    this.#server.draw(this.#calls, this.#shown);
    for (const { name, state } of this.#processes()) {
      const kind = state === 'paused' || state === 'dead' ? state : undefined;
      const span = kind === undefined ? undefined : { row: name, kind, of: name };
      this.#calls.show(`process ${name}`, span, this.#shown);
    }
  }

  get #sign(): string {
    return `${this.#log.length} ${this.#flights.tellingIds}`;
  }

  view(): View {
    const now = Math.floor(this.#shown * 1000) / 1000;
    return {
      now,
      isOver: this.#isOver,
      processes: this.#processes(),
      server: this.#server.view(now),
      flights: this.#flights.views(now),
      spans: this.#calls.spansSince(now - SHOWN_MS, now),
      log: this.#log.slice(-SHOWN_LINES).reverse(),
      isSlow: this.#flights.isTelling,
    };
  }

  #processes(): readonly ProcessView[] {
    return this.#scene.plan.processes.map(({ name }) => {
      const process = this.#byHand.process(name);
      return {
        name,
        state: stateOf(process),
        isCut: this.#byHand.isCut(name),
        calls: this.#calls.of(name),
        trouble: this.#calls.troubleOf(name),
      };
    });
  }
}

function stateOf(process: ReturnType<ByHand['process']>): ProcessView['state'] {
  if (process === undefined) return 'not started';
  if (process.machine.isDead) return 'dead';
  if (process.machine.isPaused) return 'paused';
  return process.isClosing ? 'closed' : 'alive';
}
