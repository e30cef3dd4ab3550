import { SeededRandom } from 'kit';
import { LockConfigError, LockStoreError } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { type EntryKinds, FORCED } from '../history/entry.js';
import { HistoryFile, monotonicMs } from '../history/history-file.js';
import { EVERY_KEY } from '../keys.js';
import { LockApplication, type OpenService, SharedClients } from './application.js';
import { block, Caller } from './caller.js';
import { crowd } from './crowd.js';
import { installFalseVotes } from './false-votes.js';
import { watchHeartbeat } from './heartbeat.js';
import { OwnClock } from './own-clock.js';
import { Recorder } from './recorder.js';
import { playOne } from './repertoire.js';
import { sabotage } from './sabotage.js';
import { type Hold, NOT_STARTED, type Order, type Report, type WorkerTask } from './task.js';

/** After its clocks were set or stood still, a process has asked Redis by then which leases it still has. */
const DOUBT_MS = 3_000;

/** So few that they are asked for, and answered, well within the shortest lease. */
const SWEPT_AT_ONCE = 200;

/**
 * What keeps the process alive although its event loop has turned for this long since everything was closed is named.
 * ioredis waits for two seconds until its connections to sentinels are closed, even if they have broken before.
 */
const STILL_OPEN_MS = 2_500;

/**
 * A process that locks. It has callers of several services, which make all kinds of calls and write down what they saw.
 */
class Worker {
  readonly #task: WorkerTask;
  readonly #random: SeededRandom;
  readonly #recorder: Recorder;
  readonly #clients = new SharedClients();
  readonly #clock = new OwnClock();
  #application: LockApplication | undefined;
  #generation = 0;
  #isFinishing = false;
  /** The callers of all applications that were started. */
  readonly #callers = new Set<Promise<void>>();
  #restarting: Promise<void> = Promise.resolve();
  /** How long the event loop has turned since everything was closed. Undefined while there is something to do. */
  #closedForMs: number | undefined;

  constructor(task: WorkerTask) {
    this.#task = task;
    this.#random = new SeededRandom(task.seed);
    const history = new HistoryFile<EntryKinds>(task.history);
    this.#recorder = new Recorder(task.name, history, () =>
      this.#clock.wasDisturbedWithin(DOUBT_MS),
    );
  }

  async run(): Promise<void> {
    const { name, services, breaks, sweeps } = this.#task;
    this.#clock.install();
    installFalseVotes(breaks);
    this.#watchProcess();
    watchHeartbeat(
      (since, at) => this.#recorder.history.note('stalled', { process: name, since }, at),
      (turnedMs) => {
        this.#clock.loopTurned(turnedMs);
        this.#recorder.noteDeadlines();
        this.#noteStillOpen(turnedMs);
      },
    );
    await this.#start();
    const finished = new Promise<void>((resolve) => {
      process.on('message', (order: Order) => this.#obey(order, resolve));
    });
    report({ is: 'ready' });
    const [service] = services;
    const stopSabotage = service && sabotage(breaks, service.redis);
    await finished;
    stopSabotage?.();
    await this.#restarting;
    while (this.#callers.size > 0) await Promise.all(this.#callers);
    if (sweeps) await this.#sweep();
    await this.#close();
    this.#clients.close();
    report({ is: 'closed' });
    process.disconnect(); // after this, nothing may keep the process alive
    this.#closedForMs = 0;
  }

  #obey(order: Order, finish: () => void): void {
    switch (order.do) {
      case 'finish':
        this.#isFinishing = true;
        return finish();
      case 'restart the application':
        this.#restarting = this.#restarting.then(() => this.#restart());
        return;
      case 'block':
        return block(order.ms);
      case 'step the wall clock':
        return this.#clock.stepWall(order.ms);
      case 'expect to be suspended':
        return this.#clock.expectSuspend(order.ms);
      case 'hold':
        return this.#also((caller) => hold(caller, order), order.through);
      case 'adopt': {
        const adopt = (): void => this.#also((caller) => caller.adopt(order));
        return void setTimeout(adopt, order.afterMs).unref();
      }
      case 'send a crowd':
        return this.#also((caller) => crowd(caller, order.keys, order.gives), order.through);
      case 'force release':
        void this.#forceRelease(order.key);
        return;
    }
  }

  async #start(): Promise<void> {
    const application = await this.#startedApplication();
    this.#application = application;
    if (this.#task.sweeps) return;
    for (const service of application.services) {
      for (let n = 0; n < service.task.callers; n++) {
        const random = new SeededRandom(this.#random.between(0, 2 ** 31));
        const caller = new Caller(random, this.#recorder, service, report, this.#task.without);
        this.#addCaller(this.#callOnAndOn(caller, application));
      }
    }
  }

  /**
   * An application does not start while Redis refuses what is needed, and then the process ends, as any other would.
   */
  async #startedApplication(): Promise<LockApplication> {
    const generation = ++this.#generation;
    try {
      return await LockApplication.start(this.#task, generation, this.#recorder, this.#clients);
    } catch (error) {
      if (isOfRedis(error)) process.exit(NOT_STARTED);
      throw error;
    }
  }

  /** Every key is available as soon as nobody has it, and taking one clears away what dead processes have left. */
  async #sweep(): Promise<void> {
    const caller = this.#extraCaller();
    if (caller === undefined) return;
    const sweep = (key: string) => caller.call('acquire', 'sweep', [key], {}, async () => {});
    for (let n = 0; n < EVERY_KEY.length; n += SWEPT_AT_ONCE) {
      await Promise.all(EVERY_KEY.slice(n, n + SWEPT_AT_ONCE).map(sweep));
    }
  }

  #addCaller(calls: Promise<void>): void {
    const made = calls.finally(() => this.#callers.delete(made));
    this.#callers.add(made);
  }

  /** Calls beside those that it makes by itself. */
  #also(calls: (caller: Caller) => Promise<void>, through?: string): void {
    const caller = this.#extraCaller(({ task }) => through === undefined || task.redis === through);
    if (caller !== undefined && !this.#isFinishing) this.#addCaller(calls(caller));
  }

  /** Of one of its services: of none if all are unsuitable, or its application has not started. */
  #extraCaller(isSuitable: (service: OpenService) => boolean = () => true): Caller | undefined {
    const service = this.#application?.services.find(isSuitable);
    return service && new Caller(this.#random, this.#recorder, service, report);
  }

  async #callOnAndOn(caller: Caller, application: LockApplication): Promise<void> {
    const where = `the loop of a caller of ${caller.terms.id}`;
    while (!this.#isFinishing && !application.isClosing) {
      await playOne(caller, this.#task.kinds);
      caller.assertOwnContext(where);
      await sleep(caller.random.between(0, 20));
    }
    if (!application.isClosing) return;
    // A closed application must serve nobody, but it must not be silent either.
    await caller.call('acquire', 'after-closing', ['x1'], { waitMs: 1_000 }, async (call) =>
      call.wrong('was served by a closed application'),
    );
  }

  async #restart(): Promise<void> {
    if (this.#isFinishing) return;
    await this.#close();
    await this.#start();
  }

  async #close(): Promise<void> {
    await this.#application?.close();
    for (const what of this.#clients.leftovers()) this.#recorder.wrong(what);
  }

  /** The application may be closing, or Redis may be away. The parent knows that this may not have happened. */
  async #forceRelease(key: string): Promise<void> {
    const at = monotonicMs();
    const isSure = await this.#extraCaller()
      ?.locks.forceRelease(key)
      .then(
        () => true,
        () => false,
      );
    // A command that was not answered may be executed later, when the connection is back.
    const until = monotonicMs() + (isSure === true ? 0 : 5_000);
    const effects = { disturbs: { key }, forgets: { key }, notice: 'message' } as const;
    this.#recorder.history.note('fault', { name: FORCED, until, ...effects }, at);
  }

  /** A process that is not given a processor has not lived on, however long it takes to end. */
  #noteStillOpen(turnedMs: number): void {
    if (this.#closedForMs === undefined) return;
    this.#closedForMs += turnedMs;
    if (this.#closedForMs < STILL_OPEN_MS) return;
    const open = process.getActiveResourcesInfo().join(', ');
    this.#recorder.wrong(`lived on after everything was closed, because of: ${open}`);
    process.exit();
  }

  /** An error that nobody caught ends the process, as it would anywhere, and the history says why. */
  #watchProcess(): void {
    process.on('uncaughtExceptionMonitor', (error, origin) => {
      this.#recorder.wrong(`${origin}: ${String(error.stack).split('\n').slice(0, 3).join(' ')}`);
    });
    process.on('warning', ({ name, message }) => {
      if (name !== 'ExperimentalWarning') this.#recorder.wrong(`warning ${name}: ${message}`);
    });
  }
}

function hold(caller: Caller, { key, ms, leaseMs }: Hold): Promise<void> {
  const options = leaseMs === undefined ? {} : { leaseMs };
  return caller.call('withLock', 'told-to-hold', [key], options, ms);
}

/** A fault may also have taken rights away for a moment. */
function isOfRedis(error: unknown): boolean {
  const cause = error instanceof LockConfigError ? error.cause : error;
  return cause instanceof LockStoreError;
}

function report(message: Report): void {
  process.send?.(message);
}

await new Worker(JSON.parse(process.argv[2] as string) as WorkerTask).run();
