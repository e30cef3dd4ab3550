import { SeededRandom } from 'kit';
import { LockConfigError, LockStoreError } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { HistoryFile } from '../history/history-file.js';
import { monotonicMs } from '../history/monotonic-ms.js';
import { EVERY_KEY } from '../keys.js';
import { LockApplication, type OpenService, SharedClients } from './application.js';
import { block, Caller, type Work } from './caller.js';
import { crowd } from './crowd.js';
import { watchHeartbeat } from './heartbeat.js';
import { OwnClock } from './own-clock.js';
import { Recorder } from './recorder.js';
import { playOne } from './repertoire.js';
import { sabotage } from './sabotage.js';
import { NOT_STARTED, type Order, type Report, type WorkerTask } from './task.js';

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
  readonly #history: HistoryFile;
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
    this.#history = new HistoryFile(task.history);
    this.#recorder = new Recorder(task.name, this.#history, () =>
      this.#clock.wasDisturbedWithin(DOUBT_MS),
    );
  }

  async run(): Promise<void> {
    this.#clock.install();
    this.#watchProcess();
    watchHeartbeat(
      (since, at) =>
        this.#recorder.append({ kind: 'stalled', at, since, process: this.#task.name }),
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
    const stopSabotage = this.#breakOnPurpose();
    await finished;
    stopSabotage();
    await this.#restarting;
    while (this.#callers.size > 0) await Promise.all(this.#callers);
    if (this.#task.sweeps) await this.#sweep();
    await this.#close();
    this.#clients.close();
    report({ is: 'closed' });
    process.disconnect(); // after this, nothing may keep the process alive
    this.#closedForMs = 0;
  }

  #breakOnPurpose(): () => void {
    const { breaks, services } = this.#task;
    const [service] = services;
    if (service === undefined) return () => {};
    return sabotage(breaks, service.redis);
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
        return this.#hold(order);
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
      for (let n = 0; n < service.task.callers; n++) this.#addCaller(application, service);
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
    const [service] = this.#application?.services ?? [];
    if (service === undefined) return;
    const { locks, terms } = service;
    const caller = new Caller(this.#random, this.#recorder, locks, terms, []);
    for (let n = 0; n < EVERY_KEY.length; n += SWEPT_AT_ONCE) {
      const some = EVERY_KEY.slice(n, n + SWEPT_AT_ONCE);
      await Promise.all(some.map((key) => caller.acquire('sweep', [key], {}, async () => {})));
    }
  }

  #addCaller(application: LockApplication, { locks, terms }: OpenService): void {
    const random = new SeededRandom(this.#random.between(0, 2 ** 31));
    const caller = new Caller(random, this.#recorder, locks, terms, this.#task.without);
    const loop = this.#callOnAndOn(caller, application).finally(() => this.#callers.delete(loop));
    this.#callers.add(loop);
  }

  #hold({ key, ms, leaseMs, through }: Extract<Order, { do: 'hold' }>): void {
    const options = leaseMs === undefined ? {} : { leaseMs };
    this.#also((caller) => {
      const work: Work = (call, lock) => caller.work(call, lock, ms);
      return caller.withLock('told-to-hold', [key], options, work);
    }, through);
  }

  /** Calls beside those that it makes by itself: none if Redis must be reached by a URL, and no service does so. */
  #also(calls: (caller: Caller) => Promise<unknown>, through?: string): void {
    const service = this.#application?.services.find(
      ({ task: { redis } }) =>
        through === undefined || (redis.kind === 'url' && redis.url === through),
    );
    if (service === undefined || this.#isFinishing) return;
    const { locks, terms } = service;
    const caller = new Caller(this.#random, this.#recorder, locks, terms, []);
    const made = calls(caller).then(() => void this.#callers.delete(made));
    this.#callers.add(made);
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
    await caller.acquire('after-closing', ['x1'], { waitMs: 1_000 }, async (call) => {
      this.#recorder.wrong(`${call.id} was served by a closed application`);
    });
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
    const [service] = this.#application?.services ?? [];
    const at = monotonicMs();
    const isSure = await service?.locks.forceRelease(key).then(
      () => true,
      () => false,
    );
    this.#recorder.append({
      kind: 'fault',
      name: 'released by an operator',
      at,
      // A command that was not answered may be executed later, when the connection is back.
      until: isSure === true ? monotonicMs() : monotonicMs() + 5_000,
      disturbs: { key },
      forgets: { key },
      notice: 'message',
    });
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

/** A fault may also have taken rights away for a moment. */
function isOfRedis(error: unknown): boolean {
  if (error instanceof LockConfigError) return error.cause instanceof LockStoreError;
  return error instanceof LockStoreError;
}

function report(message: Report): void {
  process.send?.(message);
}

await new Worker(JSON.parse(process.argv[2] as string) as WorkerTask).run();
