import type { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS } from '../scale.js';
import type { Stage } from '../stages/stage.js';
import { type EventKind, type LabEvent, monotonicMs } from '../work/events.js';
import type { FromWorker, Point, Setup, Traffic } from '../work/messages.js';
import { Caller } from './caller.js';
import { type Finding, findingsOf } from './findings.js';
import type { LabProcess } from './lab-process.js';
import type { Laboratory } from './laboratory.js';
import { observe, ReplicatedRedis, startRedis } from './servers.js';
import { summaryOf } from './summary.js';
import type { KeyEvent, Seen, Stock, Trial } from './trial.js';

const START_STOCK = 100;
const TEAR_DOWN_LIMIT_MS = 5_000;

/** The scene of one trial: the processes, the servers, and everything that was seen. */
export class Scene {
  readonly events: LabEvent[] = [];
  readonly product: string;
  readonly #start = monotonicMs();
  readonly #callers: Caller[] = [];
  readonly #processes = new Set<LabProcess>();
  readonly #stopListening: (() => void)[] = [];
  readonly #at = new Set<string>();
  readonly #begun = new Set<string>();
  readonly #ended = new Set<string>();
  readonly #answers: number[] = [];
  readonly #keyEvents: KeyEvent[] = [];
  readonly #seen: Seen[] = [];
  readonly #checks = new Set<() => void>();
  readonly #stops: (() => Promise<void>)[] = [];
  #redis: Redis;
  #redisUrl: string;

  constructor(
    readonly stage: Stage,
    readonly accident: string,
    private readonly lab: Laboratory,
  ) {
    this.product = `${accident}-${stage.number}`;
    this.#redis = lab.redis;
    this.#redisUrl = lab.redisUrl;
    this.#stops.push(lab.onKey(this.key, (kind) => this.#noteKey(kind)));
  }

  get name(): string {
    return `stage ${this.stage.number}, ${this.accident}`;
  }

  /** The lock's key in Redis. */
  get key(): string {
    return this.stage.number === 17 ? `lock:{stock:${this.product}}` : `lock:${this.product}`;
  }

  /** The connection to Redis that the runner itself uses. */
  get redis(): Redis {
    return this.#redis;
  }

  get answers(): readonly number[] {
    return this.#answers;
  }

  now(): number {
    return monotonicMs();
  }

  /** A Redis server for this trial alone, which may be paused. */
  async ownRedis(): Promise<RedisServer> {
    const server = await startRedis();
    this.#stops.push(() => server.stop());
    await this.#watch(server.url);
    return server;
  }

  async replicatedRedis(): Promise<ReplicatedRedis> {
    const pair = await ReplicatedRedis.start();
    this.#stops.push(() => pair.stop());
    await this.#watch(pair.url);
    return pair;
  }

  /** Callers that are ready to buy, each in a process of its own. */
  async callers<const Lanes extends readonly string[]>(
    lanes: Lanes,
    setup: Partial<Setup> & { readonly each?: readonly Partial<Setup>[] } = {},
  ): Promise<{ -readonly [Lane in keyof Lanes]: Caller }> {
    await this.lab.setStock(this.product, START_STOCK);
    const { each = [], ...shared } = setup;
    const processes = await Promise.all(
      lanes.map((_, n) => this.#process({ ...shared, ...each[n] })),
    );
    const callers = lanes.map((lane, n) =>
      this.add(new Caller(this, lane, processes[n] as LabProcess)),
    );
    return callers as { -readonly [Lane in keyof Lanes]: Caller };
  }

  add(caller: Caller): Caller {
    this.#callers.push(caller);
    return caller;
  }

  begins(lane: string): void {
    this.#begun.add(lane);
  }

  ended(lane: string): void {
    this.#ended.add(lane);
  }

  hasEnded(lane: string): boolean {
    return this.#ended.has(lane);
  }

  isAt(lane: string, point: Point): boolean {
    return this.#at.has(`${lane} ${point}`);
  }

  left(lane: string, point: Point): void {
    this.#at.delete(`${lane} ${point}`);
  }

  note(lane: string, kind: EventKind, text: string): void {
    this.#add({ at: monotonicMs(), lane, kind, text });
  }

  /** Notes something that was done to the whole scene. */
  mark(text: string): void {
    this.note('', 'mark', text);
  }

  /** Notes something worth saying, with numbers. */
  remark(text: string): void {
    this.#seen.push({ finding: undefined, text });
  }

  saw(finding: Finding, text: string): void {
    this.#seen.push({ finding, text });
  }

  /** Waits until something is seen, but no longer than the limit. */
  async until(isTrue: () => boolean, limitMs: number): Promise<boolean> {
    if (isTrue()) return true;
    return new Promise((resolve) => {
      const settle = (answer: boolean): void => {
        this.#checks.delete(check);
        clearTimeout(timer);
        resolve(answer);
      };
      const check = (): void => {
        if (isTrue()) settle(true);
      };
      const timer = setTimeout(() => settle(isTrue()), limitMs);
      this.#checks.add(check);
    });
  }

  /** The holder is dead. Finds out whether the next caller gets in on its own, and after how long. */
  async entersOrIsStuck(caller: Caller): Promise<void> {
    if (await caller.holds(LEASE_MS * 1.4)) return;
    const noEnd = this.stage.traits.includes('client clock')
      ? false
      : (await this.#redis.pttl(this.key)) === -1;
    if (noEnd) {
      this.saw('locked for ever', 'the key has no expiry, and nobody is left to remove it');
    } else if (!(await caller.holds(LEASE_MS * 3))) {
      this.saw('locked for ever', `nobody got in for ${(LEASE_MS * 4.4) / 1_000} s`);
    }
  }

  /** Lets the lock run out at this very moment. */
  async expireNow(): Promise<void> {
    const since = monotonicMs();
    if ((await this.#redis.pexpire(this.key, 1)) === 0) return;
    const isGone = ({ at, kind }: KeyEvent): boolean => kind === 'expired' && at >= since;
    await this.until(() => this.#keyEvents.some(isGone), LEASE_MS * 0.3);
  }

  /** Ends everything and says what was seen. */
  async close(): Promise<Trial> {
    for (const caller of this.#callers) {
      if (caller.process.isPaused) caller.process.resume();
      caller.goOn();
    }
    const isStuck = this.#seen.some(({ finding }) => finding === 'locked for ever');
    await this.until(
      () => [...this.#begun].every((lane) => this.#ended.has(lane)),
      isStuck ? 0 : LEASE_MS * 3,
    );
    for (const stop of this.#stopListening) stop();
    const hasEnded = [...this.#begun].every((lane) => this.#ended.has(lane));
    if (!hasEnded && !isStuck) this.saw('locked for ever', 'somebody waited until the very end');
    const stopped = await Promise.all(
      [...this.#processes].map((process) => this.#return(process, hasEnded)),
    );
    const traffic = stopped.reduce((sum, { commands, bytes }) => ({
      commands: sum.commands + commands,
      bytes: sum.bytes + bytes,
    }));
    const stock = await this.lab.stockOf(this.product, START_STOCK);
    return this.#trial(stock, traffic);
  }

  /** Stops what the trial has started, however the trial went. */
  async dispose(): Promise<void> {
    for (const stop of this.#stopListening) stop();
    for (const process of this.#processes) await this.lab.pool.discard(process);
    for (const stop of this.#stops.reverse()) await stop();
  }

  #trial(stock: Stock, traffic: Traffic): Trial {
    const since = <T extends { readonly at: number }>(event: T): T => ({
      ...event,
      at: event.at - this.#start,
    });
    const events = [...this.events]
      .sort((a, b) => a.at - b.at)
      .map((event) =>
        event.kind === 'valid until'
          ? since({ ...event, text: String(Number(event.text) - this.#start) })
          : since(event),
      );
    const lanes = this.#callers.map(({ lane }) => lane).filter((lane) => this.#begun.has(lane));
    const findings = findingsOf(events, stock, this.#seen);
    const trial = {
      stage: this.stage.number,
      accident: this.accident,
      lanes,
      events,
      keyEvents: this.#keyEvents.map(since),
      stock,
      traffic,
      seen: this.#seen,
      findings,
      ms: monotonicMs() - this.#start,
    };
    return { ...trial, summary: summaryOf(trial) };
  }

  async #process(setup: Partial<Setup>): Promise<LabProcess> {
    const process = await this.lab.pool.take(this.stage.number === 17);
    this.#processes.add(process);
    this.#stopListening.push(process.onMessage((message) => this.#hear(message)));
    const ready = process.says('ready');
    process.tell({
      do: 'set up',
      setup: {
        stage: this.stage.number,
        redisUrl: this.#redisUrl,
        databaseUrl: this.lab.databaseUrl,
        product: this.product,
        clockOffsetMs: 0,
        transactionLimitMs: 0,
        recordCommands: true,
        seed: this.lab.seed,
        ...setup,
      },
    });
    await ready;
    return process;
  }

  async #return(process: LabProcess, hasEnded: boolean): Promise<Traffic> {
    const nothing = { commands: 0, bytes: 0 };
    if (!process.isRunning || !hasEnded) {
      this.#processes.delete(process);
      await this.lab.pool.discard(process);
      return nothing;
    }
    const tornDown = process.says('torn down');
    process.tell({ do: 'tear down' });
    const limit = sleep(TEAR_DOWN_LIMIT_MS, undefined, { ref: false });
    const answer = await Promise.race([tornDown.catch(() => undefined), limit]);
    this.#processes.delete(process);
    if (answer === undefined) {
      await this.lab.pool.discard(process);
      return nothing;
    }
    this.lab.pool.giveBack(process, this.stage.number === 17);
    return answer.traffic;
  }

  #hear(message: FromWorker): void {
    switch (message.say) {
      case 'event':
        return this.#add(message.event);
      case 'at':
        this.#at.add(`${message.lane} ${message.point}`);
        return this.#check();
      case 'ended':
        this.#ended.add(message.lane);
        return this.#check();
      case 'answered':
        this.#answers.push(message.ms);
        return this.#check();
      case 'broken':
        this.saw('call failed', message.message);
        return this.#check();
      case 'ready':
      case 'torn down':
    }
  }

  #add(event: LabEvent): void {
    this.events.push(event);
    this.#check();
  }

  #check(): void {
    for (const check of [...this.#checks]) check();
  }

  #noteKey(kind: KeyEvent['kind']): void {
    this.#keyEvents.push({ at: monotonicMs(), kind });
    this.#check();
  }

  async #watch(url: string): Promise<void> {
    this.#redisUrl = url;
    const redis = observe(url);
    const stopWatching = await this.lab.watchKeys(url);
    this.#redis = redis;
    this.#stops.push(async () => redis.disconnect(), stopWatching);
  }
}
