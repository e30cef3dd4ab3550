/**
 * The health of the locks, for `@nestjs/terminus`.
 *
 * @module nestjs-locked/terminus
 */
export { LockHealthIndicator } from './lock-health.indicator.js';
export type { LockHealthOptions } from './lock-health.options.js';
