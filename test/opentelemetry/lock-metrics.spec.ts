/** Metrics, with the SDK of OpenTelemetry and as Prometheus reads them. */
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import {
  type DataPoint,
  type Histogram,
  MeterProvider,
  type MetricData,
  MetricReader,
} from '@opentelemetry/sdk-metrics';
import { InjectLockService, LockService, RedisLockModule } from 'nestjs-locked';
import { instrumentLocks } from 'nestjs-locked/opentelemetry';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();

@Injectable()
class Orders {
  constructor(@InjectLockService('orders') readonly locks: LockService) {}
}

/** Reads when it is asked. */
class ReadNow extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

async function start(reader: MetricReader = new ReadNow()) {
  const meterProvider = new MeterProvider({ readers: [reader] });
  afterTest(() => meterProvider.shutdown());
  afterTest(instrumentLocks({ meterProvider }));
  const app = await startNest({
    imports: [RedisLockModule.forRoot({ connection: redis.url, name: 'orders' })],
    providers: [Orders],
  });
  const { locks } = app.get(Orders);
  const metric = async (name: string): Promise<MetricData | undefined> => {
    const { resourceMetrics } = await reader.collect();
    return resourceMetrics.scopeMetrics
      .flatMap(({ metrics }) => metrics)
      .find(({ descriptor }) => descriptor.name === name);
  };
  return { locks, metric };
}

describe('metrics', () => {
  it('counts waits and holds, by template and never by key', async () => {
    const { locks, metric } = await start();
    for (let i = 0; i < 3; i++) await locks.withLock(`stock:${uniqueKey()}`, () => {});
    const waits = (await metric('nestjs_locked.wait.duration')) as MetricData;
    expect(waits.descriptor.unit).toBe('s');
    expect(waits.dataPoints).toHaveLength(1);
    const [point] = waits.dataPoints as [DataPoint<Histogram>];
    expect(point.attributes).toEqual({
      'nestjs_locked.service': 'orders',
      'nestjs_locked.template': 'stock:*',
      'nestjs_locked.outcome': 'acquired',
      'nestjs_locked.via': 'free',
    });
    expect(point.value.count).toBe(3);
    expect(point.value.buckets.boundaries[0]).toBe(0.001);
    expect(point.value.buckets.boundaries.at(-1)).toBe(60);
    const holds = (await metric('nestjs_locked.hold.duration')) as MetricData;
    expect(holds.dataPoints).toMatchObject([
      { attributes: { 'nestjs_locked.end': 'released' }, value: { count: 3 } },
    ]);
  });

  it('shows what is held and who waits now, and how old the oldest is', async () => {
    const { locks, metric } = await start();
    const key = `stock:${uniqueKey()}`;
    const valueOf = async (name: string): Promise<unknown> =>
      (await metric(name))?.dataPoints[0]?.value;
    const lock = await locks.acquire(key);
    expect(await valueOf('nestjs_locked.waiters')).toBe(0);
    const waiting = locks.acquire(key);
    await locks.withLock(`stock:${uniqueKey()}`, () => {}); // has it at once
    expect(await valueOf('nestjs_locked.holds')).toBe(1);
    expect(await valueOf('nestjs_locked.waiters')).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(await valueOf('nestjs_locked.hold.oldest')).toBeGreaterThan(0.02);
    await lock.release();
    await (await waiting).release();
    expect(await valueOf('nestjs_locked.holds')).toBe(0);
    expect(await valueOf('nestjs_locked.waiters')).toBe(0);
    expect(await valueOf('nestjs_locked.hold.oldest')).toBe(0);
  });

  it('counts what went wrong, with the reason', async () => {
    const { locks, metric } = await start();
    const key = `stock:${uniqueKey()}`;
    const lock = await locks.acquire(key);
    expect(await locks.tryAcquire(key)).toBeNull();
    await locks.forceRelease(key);
    await lock.release();
    expect((await metric('nestjs_locked.losses'))?.dataPoints).toMatchObject([
      { attributes: { 'nestjs_locked.reason': 'revoked' }, value: 1 },
    ]);
    expect((await metric('nestjs_locked.wait.duration'))?.dataPoints).toMatchObject([
      { attributes: { 'nestjs_locked.outcome': 'acquired' } },
      { attributes: { 'nestjs_locked.outcome': 'busy', 'error.type': 'LOCK_NOT_ACQUIRED' } },
    ]);
  });

  it('counts the waits that were ended because calls waited for each other', async () => {
    const { locks, metric } = await start();
    const key = `stock:${uniqueKey()}`;
    const options = { leaseMs: 900, reentrant: false };
    const wait = locks.withLock(key, () => locks.withLock(key, options, () => {}));
    await expect(wait).rejects.toMatchObject({ code: 'LOCK_DEADLOCK' });
    expect((await metric('nestjs_locked.deadlocks'))?.dataPoints).toMatchObject([
      { attributes: { 'nestjs_locked.template': 'stock:*' }, value: 1 },
    ]);
    expect((await metric('nestjs_locked.wait.duration'))?.dataPoints).toContainEqual(
      expect.objectContaining({
        attributes: expect.objectContaining({ 'nestjs_locked.outcome': 'deadlock' }) as unknown,
      }),
    );
  }, 20_000);

  it('shows what this process leads, since it was counted', async () => {
    const { locks, metric } = await start();
    const leaders = async () => (await metric('nestjs_locked.leaders'))?.dataPoints;
    const work = (signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
    const key = uniqueKey();
    const first = locks.lead(key, work);
    await eventually(() => expect(first.isLeader).toBe(true));
    const point = {
      attributes: { 'nestjs_locked.service': 'orders', 'nestjs_locked.template': key },
    };
    expect(await leaders()).toMatchObject([{ ...point, value: 1 }]);

    const late = new ReadNow();
    const lateProvider = new MeterProvider({ readers: [late] });
    afterTest(() => lateProvider.shutdown());
    afterTest(instrumentLocks({ meterProvider: lateProvider }));
    await first.resign();
    expect(await leaders()).toMatchObject([{ ...point, value: 0 }]);
    const { scopeMetrics } = (await late.collect()).resourceMetrics;
    const names = scopeMetrics.flatMap(({ metrics }) => metrics.map((it) => it.descriptor.name));
    expect(names).not.toContain('nestjs_locked.leaders');
  });

  it('shows how much time renewals have left', async () => {
    const { locks, metric } = await start();
    const lock = await locks.acquire(uniqueKey(), { leaseMs: 900 });
    await new Promise((resolve) => setTimeout(resolve, 700));
    await lock.release();
    const [point] = (await metric('nestjs_locked.renewal.margin'))?.dataPoints as [
      DataPoint<Histogram>,
    ];
    expect(point.value.count).toBeGreaterThanOrEqual(1);
    expect(point.value.min).toBeGreaterThan(0);
    expect(point.value.max).toBeLessThan(0.9);
  });

  it('can be read by Prometheus', async () => {
    const exporter = new PrometheusExporter({
      host: '127.0.0.1',
      port: 0,
      preventServerStart: true,
    });
    const { locks } = await start(exporter);
    await locks.withLock(`stock:${uniqueKey()}`, () => {});
    const text = await new Promise<string>((resolve) => {
      const response = { statusCode: 0, setHeader: () => {}, end: resolve };
      exporter.getMetricsRequestHandler({} as never, response as never);
    });
    expect(text).toContain('# TYPE nestjs_locked_wait_duration histogram');
    expect(text).toMatch(
      /nestjs_locked_wait_duration_count\{[^}]*nestjs_locked_template="stock:\*"[^}]*\} 1\n/,
    );
  });
});
