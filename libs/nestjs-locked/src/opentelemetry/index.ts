/**
 * Spans and metrics of the locks, for OpenTelemetry.
 *
 * @module nestjs-locked/opentelemetry
 */
export { instrumentLocks } from './instrument-locks.js';
export type { LockTelemetryOptions } from './instrument-locks.js';
