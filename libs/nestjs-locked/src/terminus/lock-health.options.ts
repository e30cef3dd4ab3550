import { must, type OptionTable, wholeNumber } from '../core/option.js';

/** The options of `LockHealthIndicator.isHealthy`. */
export interface LockHealthOptions {
  /** The `name` of the lock module, if there are several. @default the one without a name */
  readonly service?: string;
  /** How long Redis may take to answer, in milliseconds. @default 1_000 */
  readonly timeoutMs?: number;
}

export const HEALTH_OPTIONS: OptionTable<LockHealthOptions> = {
  service: {
    check: must(
      "the name given to RedisLockModule.forRoot, such as 'billing'; leave it out for the module without a name",
      (value) => typeof value === 'string' && value !== '',
    ),
    otherNames: ['name', 'servicename'],
  },
  timeoutMs: {
    default: 1_000,
    check: wholeNumber(1, 'milliseconds'),
    otherNames: ['timeout'],
  },
};
