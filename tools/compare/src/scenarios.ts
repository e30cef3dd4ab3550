import type { Scenario } from './scenario.js';

export interface NamedScenario extends Scenario {
  readonly name: string;
}

/** The files of `scenarios`, the most telling first. */
export const SCENARIO_NAMES: readonly string[] = [
  'fifty-callers',
  'lock-in-transaction',
  'redis-hangs',
  'observable-result',
  'work-outlives-lock',
  'waiter-times-out',
  'decorator-above-get',
  'business-error',
  'http-status',
  'result-after-loss',
  'renewal-refused',
  'lock-lost',
  'late-reply',
  'long-wait',
  'missing-value',
  'colliding-keys',
  'misspelt-parameter',
  'no-keys',
  'nested-call',
  'one-of-two-waiters',
  'hundred-waiters',
  'short-lease',
  'retries-without-pause',
  'acquire-times-out',
  'order-of-tokens',
  'single-try',
  'even-number-of-servers',
  'database-number',
  'es-module',
  'migrate-murlock',
  'migrate-redlock',
  'migrate-redis-semaphore',
  'migrate-nestjs-redlock-universal',
  'migrate-nestjs-redis-lock',
  'migrate-redisson',
];

export async function loadScenario(name: string): Promise<NamedScenario> {
  const file = new URL(`./scenarios/${name}.js`, import.meta.url);
  const { scenario } = (await import(file.href)) as { scenario: Scenario };
  return { name, ...scenario };
}
