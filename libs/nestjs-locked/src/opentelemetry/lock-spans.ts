import {
  context,
  isSpanContextValid,
  type Link,
  type Span,
  type SpanContext,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { ACQUIRE, EVENTS, HOLD } from '../core/events/lock-channels.js';
import {
  AROUND_WORK,
  HOLDER_FOUND,
  type LockAcquireMessage,
  type LockEventMessage,
  type LockHoldMessage,
  TRACE_PARENT,
  type WithAroundWork,
  type WithHolderFound,
  type WithTraceParent,
} from '../core/events/lock-messages.js';
import { subscribed } from '../core/events/subscribed.js';
import { ATTRIBUTE, commonAttributes, errorTypeOf, outcomeOf } from './lock-attributes.js';
import { readTraceParent, traceParentOf } from './trace-parent.js';

/**
 * The spans `acquire <template>` and `hold <template>`. The work is inside of the latter, so that its queries and
 * requests are children of it.
 */
export class LockSpans {
  readonly #tracer: Tracer;
  readonly #spans = new WeakMap<object, Span>();
  /** The holds of this process, by key, for those who wait for them. */
  readonly #held = new Map<string, SpanContext>();
  readonly #subscriptions: readonly (() => void)[];

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
    this.#subscriptions = [
      subscribed<LockAcquireMessage>(ACQUIRE.start, (message) => this.#asked(message)),
      subscribed<LockAcquireMessage>(ACQUIRE.asyncEnd, (message) => this.#answered(message)),
      subscribed<LockHoldMessage>(HOLD.start, (message) => this.#began(message)),
      subscribed<LockHoldMessage>(HOLD.asyncEnd, (message) => this.#released(message)),
      subscribed<LockEventMessage>(EVENTS, (message) => this.#happened(message)),
    ];
  }

  end(): void {
    for (const unsubscribe of this.#subscriptions) unsubscribe();
  }

  #asked(message: LockAcquireMessage & WithHolderFound): void {
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
    if (span.isRecording()) message[HOLDER_FOUND] = (traceParent) => linkTo(span, traceParent);
  }

  #happened({ event, request }: LockEventMessage): void {
    if (event.type !== 'queued' || request === undefined) return;
    const attributes = { [ATTRIBUTE.key]: event.key, [ATTRIBUTE.for]: event.for };
    this.#spans.get(request)?.addEvent('queued', attributes);
  }

  /** The holds of this process for which the call has to wait, without the one in which it is made. */
  #holdersOf({ service, keys }: LockAcquireMessage): Link[] {
    const here = trace.getSpanContext(context.active())?.spanId;
    return keys.flatMap((key) => {
      const holder = this.#held.get(ofService(service, key));
      return holder === undefined || holder.spanId === here ? [] : { context: holder };
    });
  }

  #answered(message: LockAcquireMessage): void {
    const span = this.#spans.get(message);
    if (span === undefined) return; // it was asked before there were spans
    const { error, via } = message;
    const outcome = outcomeOf(message);
    span.setAttribute(ATTRIBUTE.outcome, outcome);
    if (via !== undefined) span.setAttribute(ATTRIBUTE.via, via);
    if (error !== undefined) span.setAttribute(ATTRIBUTE.errorType, errorTypeOf(error));
    if (outcome === 'failed' || outcome === 'refused') failed(span, error as Error);
    span.end();
  }

  #began(message: LockHoldMessage & WithAroundWork & WithTraceParent): void {
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
    if (isSpanContextValid(span.spanContext()))
      message[TRACE_PARENT] = traceParentOf(span.spanContext());
    const here = trace.setSpan(context.active(), span);
    const outer = message[AROUND_WORK];
    message[AROUND_WORK] = (work) => {
      const inside = (): ReturnType<typeof work> => context.with(here, work);
      return outer === undefined ? inside() : outer(inside);
    };
  }

  #released(message: LockHoldMessage): void {
    const span = this.#spans.get(message);
    if (span === undefined) return;
    const { service, keys, end = 'released', lost } = message;
    for (const key of keys) {
      const name = ofService(service, key);
      if (this.#held.get(name) === span.spanContext()) this.#held.delete(name);
    }
    span.setAttribute(ATTRIBUTE.end, end);
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

/** Answers, such as that somebody else has the lock, are no failures. */
function failed(span: Span, error: Error): void {
  span.recordException(error);
  span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
}

/** Links a wait to the hold of another process. An API before 1.9 has no links after the start of a span. */
function linkTo(span: Span, traceParent: string): void {
  const holder = readTraceParent(traceParent);
  const { addLink } = span as Partial<Span>;
  if (holder !== undefined && span.isRecording()) addLink?.call(span, { context: holder });
}
