/** The rules and the dashboard in examples/monitoring read metrics that exist. */
import { describe, expect, it } from '@jest/globals';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import type { LockEvent } from 'nestjs-locked';
import { LockLostError, LockNotAcquiredError } from 'nestjs-locked';
import { instrumentLocks } from 'nestjs-locked/opentelemetry';
import { channel, tracingChannel } from 'node:diagnostics_channel';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterTest } from '../support/after-test.js';

const EXAMPLES = fileURLToPath(new URL('../../examples/monitoring/', import.meta.url));

const of = { service: undefined, keys: ['stock:1'], template: 'stock:<id>', label: undefined };
const lock = { key: 'stock:1', template: 'stock:<id>', label: undefined };

/** Every metric with every attribute, as Prometheus sees them. */
async function scraped(): Promise<string> {
  const exporter = new PrometheusExporter({ preventServerStart: true });
  const meterProvider = new MeterProvider({ readers: [exporter] });
  afterTest(() => meterProvider.shutdown());
  afterTest(instrumentLocks({ meterProvider }));
  const [acquire, hold] = ['acquire', 'hold'].map((name) =>
    tracingChannel(`nestjs-locked:${name}`),
  );
  const calls = [
    { ...of, via: 'free', waitedMs: 1 },
    { ...of, error: new LockNotAcquiredError('busy', 'stock:1', 1), waitedMs: 1, end: 'unknown' },
  ];
  for (const call of calls) {
    acquire?.start.publish(call);
    acquire?.asyncEnd.publish(call);
    hold?.start.publish(call);
    hold?.asyncEnd.publish(call);
  }
  const events: LockEvent[] = [
    { type: 'lost', ...lock, error: new LockLostError('lost', 'stock:1', 'expired') },
    { type: 'renewed', ...lock, marginMs: 1 },
    { type: 'deadlock', ...lock, ring: [] },
    { type: 'elected', ...lock, fencingToken: 1 },
    { type: 'transaction', ...lock, outcome: 'fenced' },
  ];
  for (const event of events) channel('nestjs-locked:event').publish({ service: undefined, event });
  return new Promise((resolve) => {
    const response = { statusCode: 0, setHeader: () => {}, end: resolve };
    exporter.getMetricsRequestHandler({} as never, response as never);
  });
}

describe('what examples/monitoring reads', () => {
  it.each(readdirSync(EXAMPLES))('%s', async (file) => {
    const names = readFileSync(EXAMPLES + file, 'utf8').match(/\bnestjs_locked_[a-z_]+/g) ?? [];
    const known = new Set((await scraped()).match(/\bnestjs_locked_[a-z_]+/g));
    expect(names.length).toBeGreaterThan(10);
    // The comment about other exporters names one of theirs.
    const unknown = names.filter((name) => !known.has(name) && !name.endsWith('_seconds'));
    expect(unknown).toEqual([]);
  });
});
