import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  mixin,
  type NestInterceptor,
  Optional,
  type Type,
} from '@nestjs/common';
import { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import {
  catchError,
  defaultIfEmpty,
  defer,
  finalize,
  from,
  isObservable,
  mergeMap,
  Observable,
  of,
  throwError,
} from 'rxjs';
import { contextHere } from '../core/context-here.js';
import type { LockRunner } from '../core/engine/lock-runner.js';
import { LockAbortedError, LockConfigError } from '../core/lock.errors.js';
import type { Lock } from '../core/lock.js';
import type { BusyContext, WithLockOptions } from '../core/lock.options.js';
import { withSignal } from '../core/resolved.options.js';
import { watchAbort } from '../core/runtime/abort-watch.js';
import { runnerOf } from './decorator/hidden-lock-service.js';
import { lockServiceToken } from './decorator/lock-service.token.js';
import { checkedLockedOptions, type LockedOptions } from './decorator/locked.options.js';
import { isObservableHandler } from './decorator/observable-handler.js';
import { hasWaitingPipes } from './decorator/waiting-pipes.js';
import type { LockService } from './lock.service.js';
import { ClientLeftException, whenClientLeaves } from './requests/client.js';
import { answersErrors, isEventStream } from './requests/event-stream.js';
import {
  dropBodyHeaders,
  headersAreSent,
  type HttpResponse,
  isHttpResponse,
  restoreBodyHeaders,
  whenResponseIsOver,
} from './requests/http-response.js';
import { isInnermostInterceptor } from './requests/innermost-interceptor.js';
import { methodsUnder } from './requests/intercepted-routes.js';
import { madeWithNew, markLockInterceptor } from './requests/lock-interceptor-class.js';
import { keyOfRequest, type RequestKey } from './requests/request-key.js';
import type { LockedCall } from './result/locked-call.js';
import { LOCKED_RESULT } from './result/locked-result.js';
import type { Enter, WhenTooLateToRead } from './result/manual-hold.js';
import { relayObservable } from './result/relay-observable.js';

/**
 * Runs a handler under a lock that is taken before the pipes, and before later interceptors, such as one that opens a
 * transaction. The lock lasts until the handler has produced its result, even if the client disconnects first; if that
 * is a stream or an Observable (`@Sse`), until it ends or is cancelled. An inner interceptor that has not emitted yet
 * counts as work.
 *
 * If the client leaves while its request waits for the lock, the wait ends and the handler does not run: over HTTP,
 * GraphQL, gRPC, TCP and in gateways. An event stream (`@Sse`) ends if its lock is lost.
 *
 * A placeholder begins with the name of a part of the request:
 *
 * - HTTP: `params`, `body`, `query`, `headers` (case-insensitive), `user`
 * - GraphQL: `args`, and `user` and `headers` of the request in its context
 * - microservices: `data`
 * - gateways: `data`, and `user` of the client
 *
 * The key is built from the raw request: `<params.id>` is the text in the URL, not yet validated or converted. So '042'
 * and '42' are two keys, and an inner `@Locked`, which sees the converted value, may use another key. A function can
 * build a key from anything else; an error that it throws is handled as if the handler had thrown it.
 *
 * With `onBusy: 'skip'`, a busy route answers with its usual status and an empty body, or as its `@Redirect` says. With
 * a function, its result is the body. Neither may be cached, whatever `@Header` says on the route.
 *
 * @example @UseInterceptors(LockInterceptor('stock:<params.id>'))
 * @throws LockConfigError for a wrong template or option. The application does not start if a placeholder names a part
 * that a route using the interceptor cannot have (a global interceptor fails at the first request), or if the
 * interceptor is on a method that is no route, which Nest does not intercept
 */
export function LockInterceptor(
  key: string | RequestKey,
  options: Omit<LockedOptions, 'returns'> = {},
): Type<NestInterceptor> {
  const requestKey = keyOfRequest(key);
  const template = typeof key === 'string' ? key : undefined;
  const shownName = `LockInterceptor(${template === undefined ? 'function' : `'${template}'`})`;
  const { service, returns, ofCalls } = checkedLockedOptions(options, shownName);
  if (returns !== undefined) {
    throw new LockConfigError(
      `Invalid option of ${shownName}: returns is for @Locked; an interceptor sees what the handler returns`,
    );
  }
  const { onBusy } = ofCalls;
  // An inner interceptor may await the handler's Observable and then keep working, such as at a COMMIT.
  const isInnermost = (context: ExecutionContext): boolean =>
    isInnermostInterceptor(KeyedLockInterceptor, context);

  @Injectable()
  class KeyedLockInterceptor implements NestInterceptor {
    /**
     * All modules are known here, and nothing is connected yet.
     * @throws LockConfigError if the key is built from a part that a route can never have, or if the interceptor is on
     * a method that is no route, which Nest does not intercept
     */
    constructor(
      @Inject(lockServiceToken(service)) private readonly locks: LockService,
      @Optional() @Inject(ModulesContainer) modules?: ModulesContainer,
      @Optional() @Inject(ApplicationConfig) private readonly application?: ApplicationConfig,
    ) {
      if (modules === undefined) return;
      const { routes, neverIntercepted } = methodsUnder(KeyedLockInterceptor, modules);
      for (const route of routes) requestKey.assertFits(route.kind, route.callSite);
      const [method] = neverIntercepted;
      if (method === undefined) return;
      throw new LockConfigError(
        `Cannot lock ${method} with ${shownName}: Nest runs interceptors only where a request arrives, and none arrives at this method, so it would never be locked; use @Locked there, or the interceptor on the route that calls it`,
      );
    }

    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      if (!isEventStream(context)) return this.#underLock(context, next);
      return answersErrors(
        orError(() => this.#underLock(context, next, true)),
        context.getArgByIndex<object>(1),
      );
    }

    #runner(route: string): LockRunner {
      if ((this.locks as LockService | undefined) !== undefined) return runnerOf(this.locks, route);
      throw madeWithNew(route);
    }

    #underLock(
      context: ExecutionContext,
      next: CallHandler,
      isStream = false,
    ): Observable<unknown> {
      const route = `${context.getClass().name}.${context.getHandler().name}`;
      const keys = requestKey.keysOf(context, route);
      const here = contextHere(); // the subscriber may run in another context
      const enterWith = (options: WithLockOptions): Enter => {
        const enter: Enter = (work, signal) => {
          const ofCall = signal === undefined ? options : withSignal(options, signal);
          return here(() => this.#runner(route).withLock(keys, ofCall, work, route, template));
        };
        // Nest unsubscribes from event streams, and in gateways.
        return isStream ? enter : unlessClientLeaves(context, enter);
      };
      const run = (): Observable<unknown> =>
        isStream ? endsWithLock(next.handle(), this.locks.current()) : next.handle();
      const call = { callSite: route, enter: enterWith(ofCalls), run };
      if (!isStream && !['rpc', 'ws'].includes(context.getType())) {
        if (context.getType() !== 'http') return resultUnderLock(call);
        const response = context.getArgByIndex<unknown>(1); // anything, if it is called like a route
        const whenTooLateToRead: WhenTooLateToRead = (leave) => whenResponseIsOver(response, leave);
        const enter = isHttpResponse(response)
          ? enterForResponse(response, ofCalls, enterWith)
          : call.enter;
        return resultUnderLock({ ...call, enter, whenTooLateToRead });
      }
      const values = valuesUnderLock({
        ...call,
        staysUntilFirstValue: !(
          isObservableHandler(context) &&
          isInnermost(context) &&
          !hasWaitingPipes(context, this.application)
        ),
      });
      if (isStream) return values;
      // Without a value, a skipped gRPC call would not even fail, and Nest would not handle the end of a stream call.
      const answered = values.pipe(catchError(undefinedIfClientLeft));
      return onBusy === undefined ? answered : answered.pipe(defaultIfEmpty(undefined));
    }
  }
  mixin(KeyedLockInterceptor);
  markLockInterceptor(KeyedLockInterceptor);
  // Nest's message for a missing lock module shows this name; that of `mixin` is meaningless.
  Object.defineProperty(KeyedLockInterceptor, 'name', { value: shownName });
  return KeyedLockInterceptor;
}

/** Fails when the lock is lost, so that the client of an event stream requests it again. */
function endsWithLock(events: Observable<unknown>, lock: Lock | undefined): Observable<unknown> {
  return new Observable((subscriber) => {
    if (lock !== undefined) {
      const { signal } = lock;
      subscriber.add(watchAbort(signal, () => subscriber.error(signal.reason)));
    }
    subscriber.add(events.subscribe(subscriber));
  });
}

function undefinedIfClientLeft(error: unknown): Observable<undefined> {
  return error instanceof ClientLeftException ? of(undefined) : throwError(() => error);
}

/** An error that is thrown becomes one of the stream, because Nest may have sent its headers. */
function orError(stream: () => Observable<unknown>): Observable<unknown> {
  try {
    return stream();
  } catch (error) {
    return throwError(() => error);
  }
}

/**
 * Ends the wait for the lock when the client leaves. Work that has begun does not notice.
 * @throws ClientLeftException
 */
function unlessClientLeaves(context: ExecutionContext, enter: Enter): Enter {
  return async (work, signal) => {
    const wait = new AbortController();
    const stopWatching = whenClientLeaves(context, () => {
      wait.abort(new ClientLeftException());
    });
    const leave = (): void => wait.abort();
    if (signal?.aborted === true) leave();
    signal?.addEventListener('abort', leave);
    const begin = (): unknown => {
      stopWatching();
      return work();
    };
    try {
      return await enter(begin, wait.signal);
    } catch (error) {
      const hasLeft =
        error instanceof LockAbortedError && error.cause instanceof ClientLeftException;
      throw hasLeft ? error.cause : error;
    } finally {
      stopWatching();
    }
  };
}

/**
 * For handlers that may send several values; the lock lasts until the last one. Nest turns a Promise into an Observable
 * too, whose work continues after it was unsubscribed from.
 */
function valuesUnderLock(call: LockedCall): Observable<unknown> {
  return LOCKED_RESULT.observable(call) as Observable<unknown>;
}

/**
 * For handlers that have one result. Nest waits for the Observable to complete before it uses the result, so if the
 * result is a stream, the Observable has to complete before the stream is read, and the lock has to outlast the stream.
 * Unsubscribing, such as by a `timeout()` around it, ends the wait for the lock. Nest 12 unsubscribes when a client
 * disconnects, but only if the handler has returned its Observable by then. The lock is requested only on subscription:
 * an outer interceptor, such as one that answers from a cache, may have unsubscribed by then.
 */
function resultUnderLock({ callSite, enter, run, ...call }: LockedCall): Observable<unknown> {
  return defer(() => {
    const left = new AbortController();
    const result = LOCKED_RESULT.promise({
      ...call,
      callSite,
      enter: (work) => enter(work, left.signal),
      run: () => lastValueOf(run() as Observable<unknown>, left.signal),
    });
    return from(result as Promise<unknown>).pipe(finalize(() => left.abort()));
  }).pipe(
    mergeMap((value) => (isObservable(value) ? value : of(value))), // the result of `onBusy`
    defaultIfEmpty(undefined),
  );
}

/**
 * For handlers whose result is the body of a response. Nest has set their `@Header`s by now, which are wrong for the
 * result of `onBusy`. `onBusy` may set headers itself.
 */
function enterForResponse(
  response: HttpResponse,
  options: WithLockOptions,
  enterWith: (options: WithLockOptions) => Enter,
): Enter {
  const { onBusy } = options;
  return async (work, signal) => {
    // An outer interceptor may have answered already.
    const isForeign = (): boolean => signal?.aborted === true || headersAreSent(response);
    const dropHeaders = (): void => {
      if (!isForeign()) dropBodyHeaders(response);
    };
    let hasRun = false;
    const running = (): unknown => {
      hasRun = true;
      if (!isForeign()) restoreBodyHeaders(response); // an outer interceptor may have retried
      return work();
    };
    if (typeof onBusy === 'function') {
      const answer = (busy: BusyContext): unknown => {
        dropHeaders();
        return onBusy(busy);
      };
      return enterWith({ ...options, onBusy: answer })(running, signal);
    }
    const result = await enterWith(options)(running, signal);
    if (!hasRun) dropHeaders();
    return result;
  };
}

/**
 * Unsubscribes from the source after its first value at the earliest: before that, whether the handler still works is
 * unknown.
 */
function lastValueOf(source: Observable<unknown>, left: AbortSignal): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let last: unknown;
    const reading = new Observable<unknown>((subscriber) => {
      relayObservable(source, subscriber, true).then(() => resolve(last), reject);
    }).subscribe((value) => {
      last = value;
    });
    // Code inside this interceptor may have made an outer one unsubscribe before there was a subscription.
    if (left.aborted) reading.unsubscribe();
    else left.addEventListener('abort', () => reading.unsubscribe());
  });
}
