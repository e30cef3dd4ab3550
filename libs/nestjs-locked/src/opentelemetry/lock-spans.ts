import {
  type Context,
  context,
  type Link,
  type Span,
  type SpanContext,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { AsyncLocalStorage } from 'node:async_hooks';
import { ACQUIRE, HOLD } from '../core/events/lock-channels.js';
import type { LockAcquireMessage, LockHoldMessage } from '../core/events/lock-messages.js';
import { ATTRIBUTE, commonAttributes, errorTypeOf, outcomeOf } from './lock-attributes.js';

/** Makes what a channel runs its work in the context of OpenTelemetry. */
class ContextOfWork extends AsyncLocalStorage<Context> {
  override run<R, Args extends unknown[]>(
    here: Context,
    work: (...args: Args) => R,
    ...args: Args
  ): R {
    return context.with(here, work as (...args: unknown[]) => R, undefined, ...args);
  }
}

/**
 * The spans `acquire <template>` and `hold <template>`. The work is inside of the latter, so that its queries and
 * requests are children of it.
 */
export class LockSpans {
  readonly #tracer: Tracer;
  readonly #spans = new WeakMap<object, Span>();
  /** The holds of this process, by key, for those who wait for them. */
  readonly #held = new Map<string, SpanContext>();
  readonly #contextOfWork = new ContextOfWork();
  readonly #acquiring = {
    start: (message: unknown): void => this.#asked(message as LockAcquireMessage),
    asyncEnd: (message: unknown): void => this.#answered(message as LockAcquireMessage),
  };
  readonly #holding = {
    start: (message: unknown): void => void this.#began(message as LockHoldMessage),
    asyncEnd: (message: unknown): void => this.#released(message as LockHoldMessage),
  };

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
    ACQUIRE.start.subscribe(this.#acquiring.start);
    ACQUIRE.asyncEnd.subscribe(this.#acquiring.asyncEnd);
    HOLD.start.bindStore(this.#contextOfWork, (message) =>
      trace.setSpan(context.active(), this.#began(message as LockHoldMessage)),
    );
    HOLD.start.subscribe(this.#holding.start);
    HOLD.asyncEnd.subscribe(this.#holding.asyncEnd);
  }

  end(): void {
    ACQUIRE.start.unsubscribe(this.#acquiring.start);
    ACQUIRE.asyncEnd.unsubscribe(this.#acquiring.asyncEnd);
    HOLD.start.unbindStore(this.#contextOfWork);
    HOLD.start.unsubscribe(this.#holding.start);
    HOLD.asyncEnd.unsubscribe(this.#holding.asyncEnd);
  }

  #asked(message: LockAcquireMessage): void {
    const { service, template, keys, label, waitMs } = message;
    const span = this.#tracer.startSpan(`acquire ${template}`, {
      attributes: {
        ...commonAttributes(service, template),
        ...described(keys, label),
        ...(Number.isFinite(waitMs) ? { [ATTRIBUTE.waitMs]: waitMs / 1_000 } : {}),
      },
      links: this.#holdersOf(message),
    });
    this.#spans.set(message, span);
  }

  /** The holds of this process for which the call has to wait. */
  #holdersOf({ service, keys }: LockAcquireMessage): Link[] {
    return keys.flatMap((key) => {
      const holder = this.#held.get(ofService(service, key));
      return holder === undefined ? [] : { context: holder };
    });
  }

  #answered(message: LockAcquireMessage): void {
    const span = this.#spans.get(message);
    if (span === undefined) return; // it was asked before there were spans
    const { error, via } = message;
    const outcome = outcomeOf(error);
    span.setAttribute(ATTRIBUTE.outcome, outcome);
    if (via !== undefined) span.setAttribute(ATTRIBUTE.via, via);
    if (error !== undefined) failed(span, error);
    span.end();
  }

  #began(message: LockHoldMessage): Span {
    const known = this.#spans.get(message);
    if (known !== undefined) return known;
    const { service, template, keys, label, fencingToken, via } = message;
    const span = this.#tracer.startSpan(`hold ${template}`, {
      attributes: {
        ...commonAttributes(service, template),
        ...described(keys, label),
        [ATTRIBUTE.fencingToken]: fencingToken,
        [ATTRIBUTE.via]: via,
      },
    });
    this.#spans.set(message, span);
    for (const key of keys) this.#held.set(ofService(service, key), span.spanContext());
    return span;
  }

  #released(message: LockHoldMessage): void {
    const span = this.#spans.get(message);
    if (span === undefined) return;
    const { service, keys, lost } = message;
    for (const key of keys) {
      const name = ofService(service, key);
      if (this.#held.get(name) === span.spanContext()) this.#held.delete(name);
    }
    span.setAttribute(ATTRIBUTE.end, lost === undefined ? 'released' : 'lost');
    if (lost !== undefined) {
      span.setAttribute(ATTRIBUTE.reason, lost);
      span.setStatus({ code: SpanStatusCode.ERROR, message: `the lock was lost (${lost})` });
    }
    span.end();
  }
}

function described(keys: readonly string[], label: string | undefined) {
  return {
    [ATTRIBUTE.keys]: [...keys],
    ...(label === undefined ? {} : { [ATTRIBUTE.label]: label }),
  };
}

function ofService(service: string | undefined, key: string): string {
  return `${service ?? ''} ${key}`;
}

/** A lock that somebody else has is an answer, and no failure of the request. */
function failed(span: Span, error: unknown): void {
  span.setAttribute(ATTRIBUTE.errorType, errorTypeOf(error));
  if (outcomeOf(error) === 'busy') return;
  span.recordException(error as Error);
  span.setStatus({ code: SpanStatusCode.ERROR, message: (error as Error).message });
}
