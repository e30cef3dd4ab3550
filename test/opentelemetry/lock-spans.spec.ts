/** Spans, with the SDK of OpenTelemetry. */
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AlwaysOnSampler,
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  type Sampler,
  SamplingDecision,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { Locked, LockService, RedisLockModule } from 'nestjs-locked';
import { instrumentLocks } from 'nestjs-locked/opentelemetry';
import { TestLocks } from 'nestjs-locked/testing';
import { spawn } from 'node:child_process';
import { channel, tracingChannel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { readTraceParent } from '../../libs/nestjs-locked/src/opentelemetry/trace-parent.js';
import { afterTest } from '../support/after-test.js';
import { endWithTests } from '../support/end-with-tests.js';
import { eventually } from '../support/eventually.js';
import { startNest } from '../support/nest-app.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();
const HOLDER = fileURLToPath(new URL('../fixtures/instrumented-holder.mjs', import.meta.url));

@Injectable()
class StockService {
  work: () => unknown = () => {};

  @Locked('stock:<id>', { waitMs: 200 })
  async take(id: string): Promise<unknown> {
    return id === '' ? undefined : this.work();
  }
}

function provider(sampler: Sampler = new AlwaysOnSampler()) {
  const exporter = new InMemorySpanExporter();
  const spanProcessors = [new SimpleSpanProcessor(exporter)];
  return { exporter, tracerProvider: new BasicTracerProvider({ sampler, spanProcessors }) };
}

async function start(sampler?: Sampler) {
  const { exporter, tracerProvider } = provider(sampler);
  const contexts = new AsyncLocalStorageContextManager().enable();
  context.setGlobalContextManager(contexts);
  afterTest(() => context.disable());
  afterTest(instrumentLocks({ tracerProvider }));
  const app = await startNest({
    imports: [RedisLockModule.forRoot({ connection: redis.url })],
    providers: [StockService],
  });
  const spans = (): ReadableSpan[] => exporter.getFinishedSpans();
  const spanOf = (name: string): ReadableSpan => {
    const found = spans().filter((span) => span.name === name);
    expect(found).toHaveLength(1);
    return found[0] as ReadableSpan;
  };
  return {
    tracer: tracerProvider.getTracer('test'),
    stock: app.get(StockService),
    locks: app.get(LockService),
    spans,
    spanOf,
  };
}

const isWithin = (inner: ReadableSpan, outer: ReadableSpan): boolean =>
  inner.parentSpanContext?.spanId === outer.spanContext().spanId &&
  inner.spanContext().traceId === outer.spanContext().traceId;

it.each([
  [{ tracer: {} }, "Unknown option 'tracer' of instrumentLocks: leave it out, or write one of"],
  [{ tracerProvider: {} }, 'tracerProvider: an object must be a provider of OpenTelemetry'],
])('wrong options are refused: %j', (options, message) => {
  expect(() => instrumentLocks(options as never)).toThrow(message);
});

describe('the work of a leader', () => {
  it('is not inside the span of its hold, which lasts as long as it leads', async () => {
    const { tracer, locks, spanOf } = await start();
    const key = uniqueKey();
    await tracer.startActiveSpan('request', async (request) => {
      const leadership = locks.lead(key, async () => {
        expect(trace.getActiveSpan()).toBeUndefined();
        tracer.startActiveSpan('query', (span) => span.end());
        await Promise.resolve();
      });
      await leadership.done;
      request.end();
    });
    const [request, hold, query] = [spanOf('request'), spanOf(`hold ${key}`), spanOf('query')];
    const traces = [request, hold, query].map((span) => span.spanContext().traceId);
    expect(new Set(traces).size).toBe(3);
  });
});

describe('the spans of a call', () => {
  it('are the wait and the hold, in the span of the caller, and the work is in the hold', async () => {
    const { tracer, stock, spanOf } = await start();
    stock.work = () => tracer.startActiveSpan('query', (span) => span.end());
    const id = uniqueKey();
    await tracer.startActiveSpan('request', async (request) => {
      await stock.take(id);
      request.end();
    });
    const [request, acquire, hold, query] = [
      spanOf('request'),
      spanOf('acquire stock:<id>'),
      spanOf('hold stock:<id>'),
      spanOf('query'),
    ];
    expect([acquire, hold].map((span) => isWithin(span, request))).toEqual([true, true]);
    expect(isWithin(query, hold)).toBe(true);
    expect([acquire.kind, hold.kind]).toEqual([SpanKind.INTERNAL, SpanKind.INTERNAL]);
    expect(acquire.attributes).toEqual({
      'nestjs_locked.template': 'stock:<id>',
      'nestjs_locked.keys': [expect.stringMatching(/^stock:/)],
      'nestjs_locked.label': 'StockService.take',
      'nestjs_locked.wait_limit': 0.2,
      'nestjs_locked.outcome': 'acquired',
      'nestjs_locked.via': 'free',
    });
    expect(hold.attributes).toMatchObject({
      'nestjs_locked.end': 'released',
      'nestjs_locked.fencing_token': expect.any(Number),
    });
    expect(hold.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('link the wait to the hold it waited for', async () => {
    const { stock, locks, spans } = await start();
    const id = uniqueKey();
    const key = locks.keyFor('stock:<id>', { id });
    let finish!: () => void;
    stock.work = () => new Promise<void>((resolve) => (finish = resolve));
    const first = stock.take(id);
    await eventually(() => expect(finish).toBeDefined());
    stock.work = () => {};
    const second = stock.take(id);
    await locks.inspect(key); // the second one waits by now
    finish();
    await Promise.all([first, second]);
    const [firstHold] = spans().filter(({ name }) => name === 'hold stock:<id>');
    const [, waited] = spans().filter(({ name }) => name === 'acquire stock:<id>');
    expect(waited?.links.map((link) => link.context.spanId)).toEqual([
      firstHold?.spanContext().spanId,
    ]);
    expect(waited?.attributes['nestjs_locked.via']).toBe('local');
    await stock.take(id);
    const [, , last] = spans().filter(({ name }) => name === 'acquire stock:<id>');
    expect(last?.links).toEqual([]);
  });

  it('say that somebody else had the lock, which is no failure', async () => {
    const { stock, locks, spanOf } = await start();
    const id = uniqueKey();
    const other = await locks.acquire(locks.keyFor('stock:<id>', { id }));
    await expect(stock.take(id)).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
    const { attributes, status } = spanOf('acquire stock:<id>');
    expect(attributes).toMatchObject({
      'nestjs_locked.outcome': 'busy',
      'error.type': 'LOCK_NOT_ACQUIRED',
    });
    expect(status.code).toBe(SpanStatusCode.UNSET);
    await other.release();
  });

  it('say that the lock was lost, which is one', async () => {
    const { locks, spanOf } = await start();
    const key = uniqueKey();
    const lock = await locks.acquire(key);
    await locks.forceRelease(key);
    await lock.release();
    const { attributes, status } = spanOf('hold *');
    expect(attributes).toMatchObject({
      'nestjs_locked.end': 'lost',
      'nestjs_locked.reason': 'revoked',
    });
    expect(status.code).toBe(SpanStatusCode.ERROR);
  });

  it('say that the wait was ended by its signal, which is no failure either', async () => {
    const { locks, spans } = await start();
    const key = uniqueKey();
    const lock = await locks.acquire(key);
    const signal = AbortSignal.timeout(50);
    await expect(locks.acquire(key, { signal })).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    const [, aborted] = spans().filter(({ name }) => name === 'acquire *');
    expect(aborted).toMatchObject({
      attributes: { 'nestjs_locked.outcome': 'aborted', 'error.type': 'LOCK_ABORTED' },
      status: { code: SpanStatusCode.UNSET },
      events: [
        {
          name: 'queued',
          attributes: { 'nestjs_locked.key': key, 'nestjs_locked.for': 'local' },
        },
      ],
    });
    await lock.release();
  });
});

/** Another process that holds the key. @returns its span, and what ends the hold */
async function startHolder(key: string, isInstrumented = true) {
  const args = [HOLDER, redis.url, key, String(isInstrumented)];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  endWithTests(child);
  const lines = createInterface({ input: child.stdout });
  const [line] = (await once(lines, 'line')) as [string];
  const span = JSON.parse(line) as { traceId?: string; spanId?: string };
  return { span, end: () => child.stdin.end() };
}

describe('the wait for a lock of another process', () => {
  it('is linked to its hold', async () => {
    const { locks, spanOf } = await start();
    const key = uniqueKey();
    const { span, end } = await startHolder(key);
    expect(span).toEqual({
      traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
      spanId: expect.stringMatching(/^[0-9a-f]{16}$/),
    });
    const waiting = locks.withLock(key, { waitMs: 60_000 }, () => {});
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    end();
    await waiting;
    const { links, events, attributes } = spanOf('acquire *');
    expect(links.map((link) => link.context)).toEqual([{ ...span, traceFlags: 1, isRemote: true }]);
    expect(events).toMatchObject([
      { name: 'queued', attributes: { 'nestjs_locked.for': 'store' } },
    ]);
    expect(attributes['nestjs_locked.via']).toBe('handed-over');
  });

  it('is linked to nothing if that process is not instrumented', async () => {
    const { locks, spanOf } = await start();
    const key = uniqueKey();
    const { end } = await startHolder(key, false);
    const waiting = locks.withLock(key, { waitMs: 60_000 }, () => {});
    await new Promise((resolve) => setTimeout(resolve, 500));
    end();
    await waiting;
    expect(spanOf('acquire *').links).toEqual([]);
  });

  it('costs one question for all calls that wait, and none for those that are not recorded or soon over', async () => {
    const sampled = { isRecorded: true };
    const sampler = {
      shouldSample: () => ({
        decision: sampled.isRecorded
          ? SamplingDecision.RECORD_AND_SAMPLED
          : SamplingDecision.NOT_RECORD,
      }),
    };
    const { locks } = await start(sampler);
    const { engine, inbox } = await openLocks(redis.url);
    const key = uniqueKey();
    let questions = 0;
    const admin = openAdmin(redis.url);
    await admin.subscribe(inbox); // of the holder, who is asked; other tests use the same server
    admin.on('message', (_channel, text: string) => {
      if (text.startsWith('q ')) questions++;
    });
    const waitWhileHeld = async (calls: number, ms: number): Promise<void> => {
      const held = await engine.acquire(key);
      const waiting = Array.from({ length: calls }, () =>
        locks.withLock(key, { waitMs: 60_000 }, () => {}),
      );
      await new Promise((resolve) => setTimeout(resolve, ms));
      await held.release();
      await Promise.all(waiting);
    };
    await waitWhileHeld(100, 20);
    sampled.isRecorded = false;
    await waitWhileHeld(1, 400);
    expect(questions).toBe(0);
    sampled.isRecorded = true;
    await waitWhileHeld(100, 400);
    expect(questions).toBe(1);
  });
});

describe('a request that Redis does not answer', () => {
  it('is a failure, with the error', async () => {
    const { tracerProvider, exporter } = provider();
    afterTest(instrumentLocks({ tracerProvider }));
    const locks = new TestLocks({ waitMs: 0 });
    const service = locks.service();
    locks.storeDown();
    await expect(service.acquire('k')).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });
    expect(exporter.getFinishedSpans()).toMatchObject([
      {
        attributes: { 'nestjs_locked.outcome': 'failed', 'error.type': 'LOCK_STORE_FAILED' },
        status: { code: SpanStatusCode.ERROR },
        events: [{ name: 'exception' }],
      },
    ]);
  });
});

describe('a trace context that another process has sent', () => {
  const [trace, span] = ['a'.repeat(32), 'b'.repeat(16)];

  it('is read as W3C has it', () => {
    expect(readTraceParent(`00-${trace}-${span}-01`)).toEqual({
      traceId: trace,
      spanId: span,
      traceFlags: 1,
      isRemote: true,
    });
  });

  it.each([
    '',
    `00-${trace}-${span}`,
    `00-${trace}-${span}-01\n`,
    `00-${trace}-${span}-01-more`,
    `ff-${trace}-${span}-01`,
    `00-${trace.toUpperCase()}-${span}-01`,
    `00-${'0'.repeat(32)}-${span}-01`,
    `00-${trace}-${'0'.repeat(16)}-01`,
  ])('is ignored if it is %j', (text) => {
    expect(readTraceParent(text)).toBeUndefined();
  });
});

describe('instrumentLocks', () => {
  it('makes no spans any more when it was ended', async () => {
    const { locks, spans } = await start();
    const exporter = new InMemorySpanExporter();
    const end = instrumentLocks({
      tracerProvider: new BasicTracerProvider({
        spanProcessors: [new SimpleSpanProcessor(exporter)],
      }),
    });
    end();
    await locks.withLock(uniqueKey(), () => {});
    expect(exporter.getFinishedSpans()).toEqual([]);
    expect(spans()).toHaveLength(2);
  });

  it('leaves no subscriber behind, so that nothing is made for nobody', () => {
    const channels = ['acquire', 'hold'].map((name) => tracingChannel(`nestjs-locked:${name}`));
    const areHeard = (): boolean[] =>
      [...channels.flatMap(({ start, asyncEnd }) => [start, asyncEnd]), events].map(
        ({ hasSubscribers }) => hasSubscribers,
      );
    const events = channel('nestjs-locked:event');
    const end = instrumentLocks();
    expect(areHeard()).toEqual([true, true, true, true, true]);
    end();
    expect(areHeard()).toEqual([false, false, false, false, false]);
  });

  it('uses the global providers unless it is given others', async () => {
    const exporter = new InMemorySpanExporter();
    trace.setGlobalTracerProvider(
      new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
    );
    afterTest(() => trace.disable());
    afterTest(instrumentLocks());
    const app = await startNest({ imports: [RedisLockModule.forRoot({ connection: redis.url })] });
    await app.get(LockService).withLock(uniqueKey(), () => {});
    expect(exporter.getFinishedSpans().map(({ name }) => name)).toEqual(['acquire *', 'hold *']);
  });
});
