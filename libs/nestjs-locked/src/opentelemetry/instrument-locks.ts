import { type MeterProvider, metrics, trace, type TracerProvider } from '@opentelemetry/api';
import { LockMetrics } from './lock-metrics.js';
import { LockSpans } from './lock-spans.js';

/** Where spans and metrics go. */
export interface LockTelemetryOptions {
  /** @default the global one */
  readonly tracerProvider?: TracerProvider;
  /** @default the global one */
  readonly meterProvider?: MeterProvider;
}

const SCOPE = 'nestjs-locked';

/**
 * Makes spans and metrics of all locks of this process, in every lock module. Call it once, after the providers of
 * OpenTelemetry were set; the lock modules may be there already or come later.
 *
 * @example instrumentLocks();
 * @returns a function that ends it, for tests
 */
export function instrumentLocks({
  tracerProvider = trace.getTracerProvider(),
  meterProvider = metrics.getMeterProvider(),
}: LockTelemetryOptions = {}): () => void {
  const spans = new LockSpans(tracerProvider.getTracer(SCOPE));
  const measured = new LockMetrics(meterProvider.getMeter(SCOPE));
  return () => {
    spans.end();
    measured.end();
  };
}
