import type { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Accident } from '../accidents.js';
import { LEASE_MS } from '../scale.js';
import { isOurs, type Stage } from '../stages/stage.js';
import { type EventKind, type LabEvent, monotonicMs } from '../work/events.js';
import type { FromWorker, Setup, Traffic } from '../work/messages.js';
import { Caller } from './caller.js';
import { type Finding, findingsOf } from './findings.js';
import { LONGEST_WAIT_MS, missedOf } from './goal.js';
import { historyOf } from './history.js';
import type { LabProcess } from './lab-process.js';
import { type Laboratory, observe, ReplicatedRedis, startRedis } from './laboratory.js';
import { SeveralServers, type SeveralServersOptions } from './several-servers.js';
import { inSeconds, summaryOf } from './summary.js';
import type { KeyEvent, Seen, Stock, Trial } from './trial.js';

const START_STOCK = 100;
const TEAR_DOWN_LIMIT_MS = 5_000;

/** The scene of one trial: the processes, the servers, and everything that was seen. */
export class Scene {
  readonly events: LabEvent[] = [];
  /** How long queries took that have nothing to do with the lock. */
  readonly answers: number[] = [];
  readonly product: string;
  readonly #callers: Caller[] = [];
  /** With the functions that end the listening to them. */
  readonly #processes = new Map<LabProcess, () => void>();
  /** All processes that were there, in their order. */
  readonly #numbers: LabProcess[] = [];
  readonly #keyEvents: KeyEvent[] = [];
  readonly #seen: Seen[] = [];
  readonly #checks = new Set<() => void>();
  readonly #stops: (() => Promise<void> | void)[] = [];
  #redis: Redis;
  #redisUrl: string;
  #quorum: SeveralServers | undefined;

  constructor(
    readonly stage: Stage,
    private readonly accident: Accident,
    private readonly lab: Laboratory,
    nth: number,
  ) {
    this.product = `${accident.id}-${stage.id}-${nth}`;
    this.#redis = lab.redis;
    this.#redisUrl = lab.redisUrl;
    const noteKey = (kind: KeyEvent['kind']): void => {
      this.#keyEvents.push({ at: monotonicMs(), kind });
      this.#check();
    };
    this.#stops.push(lab.onKey(this.key, noteKey));
  }

  get name(): string {
    return `stage ${this.stage.id}, ${this.accident.id}`;
  }

  /** The lock's key in Redis. */
  get key(): string {
    return this.#isOurs ? `lock:{stock:${this.product}}` : `lock:${this.product}`;
  }

  /** The connection to Redis that the runner itself uses. */
  get redis(): Redis {
    return this.#redis;
  }

  now(): number {
    return monotonicMs();
  }

  /** A Redis server for this trial alone, which may be paused. */
  async ownRedis(): Promise<RedisServer> {
    return this.#use(await startRedis());
  }

  async replicatedRedis(): Promise<ReplicatedRedis> {
    return this.#use(await ReplicatedRedis.start());
  }

  /** The servers of a lock that is kept in several. */
  async severalServers(options: SeveralServersOptions = {}): Promise<SeveralServers> {
    const servers = await SeveralServers.start(options);
    this.#stops.push(() => servers.stop());
    this.#quorum = servers;
    return servers;
  }

  /** Callers that are ready to buy, each in a process of its own. */
  async callers<const Lanes extends readonly string[]>(
    lanes: Lanes,
    setup: Partial<Setup> & { readonly each?: readonly Partial<Setup>[] } = {},
  ): Promise<{ -readonly [Lane in keyof Lanes]: Caller }> {
    await this.lab.setStock(this.product, START_STOCK);
    if (this.stage.traits.includes('several servers') && this.#quorum === undefined) {
      await this.severalServers();
    }
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

  /** Notes what was done to a caller, or to the whole scene. */
  note(kind: EventKind, text: string, lane = ''): void {
    this.events.push({ at: monotonicMs(), lane, kind, text });
    this.#check();
  }

  mark(text: string): void {
    this.note('mark', text);
  }

  /** Notes what is done to Redis, or to the key. */
  disturb(text: string): void {
    this.events.push({ at: monotonicMs(), lane: '', kind: 'mark', text, disturbs: true });
    this.#check();
  }

  /** Notes something worth saying, with numbers, which may be a finding. */
  saw(text: string, finding?: Finding): void {
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

  allEnd(callers: readonly Caller[], limitMs: number): Promise<boolean> {
    return this.until(() => callers.every(({ hasEnded }) => hasEnded), limitMs);
  }

  /** Waits until all have ended, or nothing has happened for so long. */
  async allEndOrAreStuck(callers: readonly Caller[], restMs: number): Promise<void> {
    for (let before = -1; before !== this.events.length;) {
      before = this.events.length;
      if (await this.allEnd(callers, restMs)) return;
    }
    const waiting = callers.filter(({ hasEnded }) => !hasEnded).length;
    this.saw(`${waiting} wait, and nobody gets in any more`, 'locked for ever');
  }

  /** Nobody is inside, or a dead holder. Finds out whether the next caller gets in on its own, and after how long. */
  async entersOrIsStuck(caller: Caller): Promise<void> {
    if (await caller.holds(LEASE_MS * 1.4)) return;
    const isInValue = this.stage.traits.includes('client clock'); // then the key itself has no end
    if (!isInValue && (await this.#redis.pttl(this.key)) === -1) {
      this.saw('the key has no expiry, and nobody is left to remove it', 'locked for ever');
    } else if (!(await caller.holds(LEASE_MS * 3))) {
      this.saw(`nobody got in for ${inSeconds(LEASE_MS * 4.4)}`, 'locked for ever');
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
    const begun = this.#callers.filter(({ hasBegun }) => hasBegun);
    const isStuck = this.#seen.some(({ finding }) => finding === 'locked for ever');
    const hasEnded = await this.allEnd(begun, isStuck ? 0 : LEASE_MS * 3);
    for (const stopListening of this.#processes.values()) stopListening();
    if (!hasEnded && !isStuck) this.saw('somebody waited until the very end', 'locked for ever');
    const stopped = await Promise.all(
      [...this.#processes.keys()].map((process) => this.#return(process, hasEnded)),
    );
    const traffic = stopped.reduce((sum, { commands, bytes }) => ({
      commands: sum.commands + commands,
      bytes: sum.bytes + bytes,
    }));
    const lanes = begun.map(({ lane }) => lane);
    return this.#trial(lanes, await this.lab.stockOf(this.product, START_STOCK), traffic);
  }

  /** Stops what the trial has started, however the trial went. */
  async dispose(): Promise<void> {
    for (const [process, stopListening] of this.#processes) {
      stopListening();
      await this.lab.pool.discard(process);
    }
    for (const stop of this.#stops.reverse()) await stop();
  }

  get #isOurs(): boolean {
    return isOurs(this.stage.id);
  }

  #trial(lanes: string[], stock: Stock, traffic: Traffic): Trial {
    const inOrder = [...this.events].sort((a, b) => a.at - b.at);
    const start = inOrder[0]?.at ?? 0;
    const since = <T extends { readonly at: number }>(event: T): T => ({
      ...event,
      at: event.at - start,
    });
    const events = inOrder.map(since);
    for (const missed of missedOf(this.accident.goal, events, stock)) {
      this.saw(missed, 'goal missed');
    }
    const processes = Object.fromEntries(
      this.#callers.map(({ lane, process }) => [
        lane,
        `process ${1 + this.#numbers.indexOf(process)}`,
      ]),
    );
    const { waitMs = LONGEST_WAIT_MS } = this.accident.goal;
    const history = historyOf({ events, processes, key: this.key, waitMs });
    const observed = { events, stock, seen: this.#seen };
    const trial = {
      stage: this.stage.id,
      accident: this.accident.id,
      lanes,
      ...observed,
      history: history.lines,
      keyEvents: this.#keyEvents.map(since),
      traffic,
      findings: findingsOf(history, observed, this.stage.traits.includes('in order')),
    };
    return { ...trial, summary: summaryOf(trial) };
  }

  async #process(setup: Partial<Setup>): Promise<LabProcess> {
    const process = await this.lab.pool.take(this.#isOurs);
    this.#numbers.push(process);
    this.#processes.set(
      process,
      process.onMessage((message) => this.#hear(message)),
    );
    const ready = process.says('ready');
    process.tell({
      do: 'set up',
      setup: {
        stage: this.stage.id,
        redisUrl: this.#redisUrl,
        nodeUrls: this.#quorum?.urls ?? [],
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

  /** Gives a process back for the next trial, unless it is gone or something in it has not ended. */
  async #return(process: LabProcess, hasEnded: boolean): Promise<Traffic> {
    this.#processes.delete(process);
    if (process.isRunning && hasEnded) {
      const tornDown = process.says('torn down');
      process.tell({ do: 'tear down' });
      const limit = sleep(TEAR_DOWN_LIMIT_MS, undefined, { ref: false });
      const answer = await Promise.race([tornDown.catch(() => undefined), limit]);
      if (answer !== undefined) {
        this.lab.pool.giveBack(process, this.#isOurs);
        return answer.traffic;
      }
    }
    await this.lab.pool.discard(process);
    return { commands: 0, bytes: 0 };
  }

  #hear(message: FromWorker): void {
    const caller = this.#callers.find(({ lane }) => 'lane' in message && lane === message.lane);
    if (message.say === 'event') this.events.push(message.event);
    if (message.say === 'at') caller?.at.add(message.point);
    if (message.say === 'ended' && caller !== undefined) caller.hasEnded = true;
    if (message.say === 'answered') this.answers.push(message.ms);
    if (message.say === 'broken') this.saw(message.message, 'call failed');
    this.#check();
  }

  #check(): void {
    for (const check of [...this.#checks]) check();
  }

  async #use<Server extends { readonly url: string; stop(): Promise<void> }>(
    server: Server,
  ): Promise<Server> {
    this.#stops.push(() => server.stop());
    this.#redisUrl = server.url;
    const redis = observe(server.url);
    const stopWatching = await this.lab.watchKeys(server.url);
    this.#redis = redis;
    this.#stops.push(() => redis.disconnect(), stopWatching);
    return server;
  }
}
