import { type MeterProvider, metrics, trace, type TracerProvider } from '@opentelemetry/api';
import { assertOptions, must, type OptionTable } from '../core/option.js';
import { LockMetrics } from './lock-metrics.js';
import { LockSpans } from './lock-spans.js';

/** Where spans and metrics go. */
export interface LockTelemetryOptions {
  /** @default the global one */
  readonly tracerProvider?: TracerProvider;
  /** @default the global one */
  readonly meterProvider?: MeterProvider;
}

const having = (method: string) => ({
  check: must(
    `a provider of OpenTelemetry, with ${method}()`,
    (value) => typeof (Object(value) as Record<string, unknown>)[method] === 'function',
  ),
});

const TELEMETRY_OPTIONS: OptionTable<LockTelemetryOptions> = {
  tracerProvider: having('getTracer'),
  meterProvider: having('getMeter'),
};

const SCOPE = 'nestjs-locked';

/**
 * Makes spans and metrics of all locks of this process, in every lock module. Call it once, after the providers of
 * OpenTelemetry were set; the lock modules may be there already or come later.
 *
 * @example instrumentLocks();
 * @returns a function that ends it, for tests @throws LockConfigError for a wrong option
 */
export function instrumentLocks(options: LockTelemetryOptions = {}): () => void {
  assertOptions(TELEMETRY_OPTIONS, options, { owner: 'instrumentLocks' });
  const { tracerProvider = trace.getTracerProvider(), meterProvider = metrics.getMeterProvider() } =
    options;
  const spans = new LockSpans(tracerProvider.getTracer(SCOPE));
  const measured = new LockMetrics(meterProvider.getMeter(SCOPE));
  return () => {
    spans.end();
    measured.end();
  };
}
