import { Logger } from '@nestjs/common';
import type { ServerResponse } from 'node:http';
import { hostname } from 'node:os';
import { inspect } from 'node:util';
import { LockKeyError } from '../core/lock.errors.js';
import {
  type AskedHolders,
  type HasLockOverview,
  LOCK_OVERVIEW,
  type LockOverview,
} from '../core/lock-overview.js';
import { LOG_CONTEXT } from '../core/log-context.js';
import { systemClock } from '../core/time/clock.js';
import type { DashboardRole, HelloMessage, LookMessage } from './dashboard-messages.js';
import type { History } from './history.js';
import type { OperatorLog } from './operator-log.js';
import { told } from './refusal.js';
import { shownLock } from './shown-lock.js';
import { waitGraph } from './wait-graph.js';
import { Watcher } from './watcher.js';

/** How many may watch at a time. */
const MOST_WATCHERS = 50;

/** How many locks are listed. */
const MOST_LOCKS = 200;

/** The shortest pause between two looks. */
const PAUSE_MS = 1_000;

/**
 * A look that takes long is followed by a pause of so many times as long, so that Redis has its time for others. One
 * that has failed is not, or the page would still say so long after Redis is back.
 */
const PAUSES_PER_LOOK = 4;

const ALL = '*';

export interface LiveViewOptions {
  readonly service: string | undefined;
  readonly locks: HasLockOverview;
  readonly history: History;
  readonly log: OperatorLog;
}

/** Looks at the locks again and again while somebody watches, once for all who do, and sends them what it sees. */
export class LiveView {
  readonly #options: LiveViewOptions;
  readonly #logger = new Logger(LOG_CONTEXT);
  readonly #watchers = new Set<Watcher>();
  /** The last look for each filter, for those who come before the next one. */
  readonly #last = new Map<string, string>();
  #isLooking = false;
  #cancelPause: (() => void) | undefined;
  #isClosed = false;

  constructor(options: LiveViewOptions) {
    this.#options = options;
  }

  /** Why nobody else can watch now, if so. */
  get refusal(): string | undefined {
    if (this.#isClosed) return 'The application is shutting down.';
    return this.#watchers.size < MOST_WATCHERS
      ? undefined
      : `${MOST_WATCHERS} pages watch already, and no more may. Close one, or try again later.`;
  }

  /** Sends everything to this client until it leaves. Its head has been written. */
  watch(response: ServerResponse, filter: string, role: DashboardRole): void {
    const watcher = new Watcher(response, filter, role, () => this.#watchers.delete(watcher));
    this.#watchers.add(watcher);
    const { service = null } = this.#options;
    const at = systemClock.wallNow();
    const hello: HelloMessage = { role, host: hostname(), pid: process.pid, service, at };
    watcher.send('hello', JSON.stringify(hello));
    this.#sendLog(watcher);
    const last = this.#last.get(filter);
    if (last !== undefined) watcher.send('look', last);
    this.#start();
  }

  /** Sends the log to all who watch. */
  tellLog(): void {
    for (const watcher of this.#watchers) this.#sendLog(watcher);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelPause?.();
    for (const watcher of this.#watchers) watcher.end();
  }

  #start(): void {
    if (this.#isLooking || this.#cancelPause !== undefined || this.#isClosed) return;
    this.#isLooking = true;
    const from = systemClock.now();
    void this.#lookForAll()
      .catch((error: unknown) => {
        this.#logFailure(error);
        return false;
      })
      .then((hasSeen) => {
        this.#isLooking = false;
        const tookMs = hasSeen ? systemClock.now() - from : 0;
        this.#pause(Math.max(PAUSE_MS, PAUSES_PER_LOOK * tookMs));
      });
  }

  /** Also after the last one has left, so that somebody who comes again and again causes no more looks. */
  #pause(ms: number): void {
    if (this.#isClosed) return;
    const cancel = systemClock.after(ms, () => {
      this.#cancelPause = undefined;
      if (this.#watchers.size > 0) this.#start();
      else this.#last.clear(); // it would be old for who comes later
    });
    cancel.mayEnd?.(true);
    this.#cancelPause = cancel;
  }

  /** @returns whether Redis has answered */
  async #lookForAll(): Promise<boolean> {
    const { history } = this.#options;
    const filters = new Set([...this.#watchers].map(({ filter }) => filter));
    for (const filter of this.#last.keys()) if (!filters.has(filter)) this.#last.delete(filter);
    filters.add(ALL);
    const look = await this.#look([...filters]);
    if (typeof look !== 'string') history.look(look.overviews.get(ALL) as LockOverview);
    for (const filter of filters) {
      const interested = [...this.#watchers].filter((watcher) => watcher.filter === filter);
      if (interested.length === 0) continue;
      const json = JSON.stringify({ ...messageOf(look, filter), history: history.shown() });
      this.#last.set(filter, json);
      for (const watcher of interested) {
        this.#sendLog(watcher); // first, because there may be no room after the look
        watcher.send('look', json);
      }
    }
    return typeof look !== 'string';
  }

  /** @returns why it failed, if it did */
  async #look(filters: readonly string[]): Promise<Look | string> {
    const at = systemClock.wallNow();
    const from = systemClock.now();
    try {
      const seen = await this.#options.locks[LOCK_OVERVIEW](filters, MOST_LOCKS);
      const overviews = new Map(filters.map((filter, i) => [filter, seen[i]]));
      // What the processes say is the same for every filter.
      const asked = await (overviews.get(ALL) as LockOverview).ask();
      return { at, tookMs: systemClock.now() - from, overviews, asked };
    } catch (error) {
      const [, message] = told(error) ?? [];
      if (message === undefined) this.#logFailure(error);
      return message ?? 'The locks cannot be shown. The log has the reason.';
    }
  }

  #logFailure(error: unknown): void {
    this.#logger.error(`The dashboard could not show the locks: ${inspect(error)}`);
  }

  #sendLog(watcher: Watcher): void {
    const { entries } = this.#options.log;
    if (watcher.sentLog === entries) return;
    if (watcher.send('log', JSON.stringify(entries))) watcher.sentLog = entries;
  }
}

interface Look {
  readonly at: number;
  readonly tookMs: number;
  /** By their filters, that of all locks included, or why a filter can match none. */
  readonly overviews: ReadonlyMap<string, LockOverview | LockKeyError | undefined>;
  readonly asked: AskedHolders;
}

function messageOf(look: Look | string, filter: string): Omit<LookMessage, 'history'> {
  if (typeof look === 'string') return problemMessage(look);
  const view = look.overviews.get(filter) as LockOverview | LockKeyError;
  if (view instanceof LockKeyError) return problemMessage(view.message);
  const { held, waiting, oldestWaitMs, isPartial } = look.overviews.get(ALL) as LockOverview;
  const { waits, present } = look.asked;
  return {
    at: look.at,
    tookMs: look.tookMs,
    problem: null,
    totals: { held, waiting, oldestWaitMs, isPartial },
    matching: view.held,
    locks: view.locks.map((lock) => shownLock(present(lock))),
    waits: waitGraph(waits),
  };
}

function problemMessage(problem: string): Omit<LookMessage, 'history'> {
  const nothing = { totals: null, matching: 0, locks: [], waits: [] };
  return { at: systemClock.wallNow(), tookMs: 0, problem, ...nothing };
}
