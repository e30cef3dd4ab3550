import { LockConfigError } from '../../core/lock.errors.js';
import type { RedisClient } from '../connection/server/redis-client.js';

/** Options that the worker thread sets itself, as the connections of the main thread do, or that it does not use. */
const OWN_OPTIONS = new Set([
  'autoPipeliningIgnoredCommands',
  'himportFieldsets',
  'preferredSlaves',
  'reconnectOnError',
  'retryStrategy',
  'scripts',
  'sentinelReconnectStrategy',
  'sentinelRetryStrategy',
]);

/** The connection that the worker thread makes: to the same server as the client, and to the master. */
export interface WorkerConnection {
  readonly name: string;
  /** How long a command may take. */
  readonly timeLimitMs: number;
}

/**
 * The options of the worker thread's connection, from those of the client. Only data can be passed to a thread.
 * @throws LockConfigError naming the option that has something else
 */
export function clonedOptions(
  { options }: RedisClient,
  { name, timeLimitMs }: WorkerConnection,
): Record<string, unknown> {
  const entries = Object.entries(options).filter(([option]) => !OWN_OPTIONS.has(option));
  for (const [option, value] of entries) assertIsData(value, option);
  return {
    ...Object.fromEntries(entries),
    connectionName: name,
    lazyConnect: false,
    role: 'master',
    failoverDetector: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: null,
    autoResubscribe: false,
    enableAutoPipelining: false,
    commandTimeout: timeLimitMs,
    monitor: false,
    socketTimeout: undefined,
  };
}

function assertIsData(value: unknown, name: string): void {
  if (typeof value !== 'object' || value === null) {
    if (typeof value === 'function' || typeof value === 'symbol') throw notData(name);
    return;
  }
  if (ArrayBuffer.isView(value)) return;
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = Array.isArray(value) || prototype === Object.prototype || prototype === null;
  if (!isPlain) throw notData(name);
  for (const [part, nested] of Object.entries(value)) assertIsData(nested, `${name}.${part}`);
}

function notData(name: string): LockConfigError {
  return new LockConfigError(
    `renewFrom: 'worker' cannot be used with the option '${name}' of connection: it is a function or an object of a class, which cannot be passed to a worker thread; write it as data, or use renewFrom: 'main'`,
  );
}
