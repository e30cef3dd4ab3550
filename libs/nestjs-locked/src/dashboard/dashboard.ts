import { Logger } from '@nestjs/common';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { inspect } from 'node:util';
import { assertKeyPattern, assertLockKey } from '../core/keys/lock-key.js';
import { LOG_CONTEXT } from '../core/log-context.js';
import { atMost } from '../core/time/at-most.js';
import { systemClock } from '../core/time/clock.js';
import type { LockService } from '../nest/lock.service.js';
import { isOfOtherSite, isOfSameOrigin, operatorOf } from './access.js';
import { sendFile, sendJson, writeHead } from './answer.js';
import { History } from './history.js';
import { LiveView } from './live-view.js';
import type { DashboardOperator, LockDashboardOptions } from './lock-dashboard.options.js';
import { OperatorLog } from './operator-log.js';
import { pageFile } from './page-file.js';
import { readJson } from './read-json.js';
import { Refusal, told } from './refusal.js';
import { releaseLock } from './release-lock.js';
import { shownQueue } from './shown-lock.js';
import { STREAM_HEADERS } from './watcher.js';

/** The names below our path. All others are left to the application. */
export const PARTS = ['page.css', 'page.js', 'events', 'lock', 'release'];

/** How long `authorize` may take: requests that nobody answers would hold up the end of the server. */
const AUTHORIZE_MS = 10_000;

const LONGEST_FILTER = 200;
const MOST_ASTERISKS = 3;

/** What is there from the start of the application to its end. */
interface Running {
  readonly locks: LockService;
  readonly history: History;
  readonly live: LiveView;
}

/** A request of somebody who may look. */
interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly operator: DashboardOperator;
  readonly query: URLSearchParams;
}

/** The page, its data and the one change that it makes: a middleware of Express and of Fastify. */
export class Dashboard {
  readonly #options: LockDashboardOptions;
  readonly #logger = new Logger(LOG_CONTEXT);
  readonly #log = new OperatorLog();
  readonly #ownPath: RegExp;
  #running: Running | undefined;

  constructor(options: LockDashboardOptions) {
    this.#options = options;
    const own = `${options.path}(?:/(${PARTS.join('|')}|))?`.replaceAll('.', '\\.');
    // After a global prefix and a version, which the router has compared. Routers ignore case.
    this.#ownPath = new RegExp(`^[^?#]*${own}(?:\\?([^#]*))?$`, 'i');
  }

  open(locks: LockService): void {
    const { service } = this.#options;
    const history = new History(service);
    const live = new LiveView({ service, locks, history, log: this.#log });
    this.#running = { locks, history, live };
  }

  close(): void {
    this.#running?.history.end();
    this.#running?.live.close();
  }

  readonly middleware = (
    request: IncomingMessage & { readonly originalUrl?: string },
    response: ServerResponse,
    next: () => void,
  ): void => {
    const [matches, part, query = ''] =
      this.#ownPath.exec(request.originalUrl ?? request.url ?? '') ?? [];
    if (matches === undefined) return next();
    void this.#answer(request, response, part, query).catch((error: unknown) => {
      this.#fail(response, error);
    });
  };

  /** @param part of the path after ours, without the slash; undefined if there is no slash */
  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    part: string | undefined,
    query: string,
  ): Promise<void> {
    const operator = await this.#operatorOf(request);
    if (operator === undefined) return this.#refuse(response);
    if (part === undefined) {
      // The page names its files and its data relatively, so that it works behind any prefix.
      const last = this.#options.path.slice(this.#options.path.lastIndexOf('/') + 1);
      const location = `${last}/${query === '' ? '' : `?${query}`}`;
      writeHead(response, 302, { location, 'cache-control': 'no-store' });
      response.end();
      return;
    }
    await this.#route(part, { request, response, operator, query: new URLSearchParams(query) });
  }

  async #operatorOf(request: IncomingMessage): Promise<DashboardOperator | undefined> {
    try {
      const asked = Promise.resolve(this.#options.authorize(request));
      const answer = await atMost(
        systemClock,
        AUTHORIZE_MS,
        asked.then((access) => ({ access })),
      );
      if (answer === undefined) throw new Error(`no answer within ${AUTHORIZE_MS} ms`);
      return operatorOf(answer.access);
    } catch (cause) {
      // Whatever it is, it must not be told.
      throw new Error(`authorize has failed: ${String(cause)}`, { cause });
    }
  }

  async #route(part: string, asked: Asked): Promise<void> {
    const { request, response } = asked;
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (part === 'release' && request.method === 'POST') return this.#release(asked);
    if (part === 'release' || !isRead) throw new Refusal(405, 'There is no such method here.');
    if (part === 'events' || part === 'lock') {
      if (isOfOtherSite(request)) throw new Refusal(403, 'Another site may not read this.');
      return part === 'events' ? this.#watch(asked) : this.#look(asked);
    }
    sendFile(request, response, pageFile(part, asked.query));
  }

  #watch({ request, response, operator, query }: Asked): void {
    const { live } = this.#started();
    const filter = query.get('filter') ?? '*';
    assertFilter(filter);
    if (live.refusal !== undefined) throw new Refusal(503, live.refusal);
    if (request.socket.destroyed) return; // it has left before authorize answered, of which nothing tells later
    // Under HTTP/1, a connection that is kept would hold up the end of the server.
    const close = request.httpVersionMajor < 2 ? { connection: 'close' } : undefined;
    writeHead(response, 200, { ...STREAM_HEADERS, ...close });
    if (request.method === 'HEAD') response.end();
    else live.watch(response, filter, operator.role);
  }

  async #look({ response, query }: Asked): Promise<void> {
    const key = query.get('key');
    assertLockKey(key);
    const lock = await this.#started().locks.inspect(key);
    sendJson(response, 200, lock === null ? null : shownQueue(lock));
  }

  async #release({ request, response, operator }: Asked): Promise<void> {
    if (!isOfSameOrigin(request)) {
      throw new Refusal(403, 'Only a page of this site can release a lock.');
    }
    const { locks, live } = this.#started();
    try {
      const message = await releaseLock(locks, this.#log, operator, await readJson(request));
      sendJson(response, 200, { message });
    } finally {
      live.tellLog();
    }
  }

  #started(): Running {
    if (this.#running !== undefined) return this.#running;
    throw new Refusal(503, 'The application has not started yet.');
  }

  /** Says nothing about what is here. */
  #refuse(response: ServerResponse): void {
    const { challenge } = this.#options;
    const isAsked = challenge === undefined ? undefined : { 'www-authenticate': challenge };
    writeHead(response, challenge === undefined ? 403 : 401, {
      ...isAsked,
      'content-type': 'text/plain; charset=utf-8',
      'cache-control': 'no-store',
    });
    response.end(challenge === undefined ? 'Forbidden\n' : 'Unauthorized\n');
  }

  /** Tells what is meant for people at the page, and logs everything else. */
  #fail(response: ServerResponse, error: unknown): void {
    const [status, message] = told(error) ?? [500, 'The request failed. The log has the reason.'];
    if (status === 500) {
      this.#logger.error(`The dashboard could not answer a request: ${inspect(error)}`);
    }
    if (response.headersSent) response.destroy();
    else sendJson(response, status, { message });
  }
}

/**
 * Some versions of Redis take very long for patterns with many asterisks, and do nothing else meanwhile.
 * @throws LockKeyError · Refusal
 */
function assertFilter(filter: string): void {
  assertKeyPattern(filter);
  const asterisks = filter.split('*').length - 1;
  if (filter.length <= LONGEST_FILTER && asterisks <= MOST_ASTERISKS) return;
  throw new Refusal(
    400,
    `A filter has ${LONGEST_FILTER} characters and ${MOST_ASTERISKS} asterisks at the most.`,
  );
}
