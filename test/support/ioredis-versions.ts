import { Redis, type RedisOptions } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { afterTest } from './after-test.js';

/** Options that both versions have. */
type CommonOptions = Pick<
  RedisOptions,
  | 'db'
  | 'enableAutoPipelining'
  | 'enableOfflineQueue'
  | 'enableReadyCheck'
  | 'keyPrefix'
  | 'lazyConnect'
  | 'maxRetriesPerRequest'
  | 'password'
  | 'retryStrategy'
  | 'stringNumbers'
  | 'username'
>;
export type Connect = (url: string, options?: CommonOptions) => Redis | Redis5;

const ioredis5: Connect = (url, options) => new Redis5(url, options as never);
export const ioredis6: Connect = (url, options = {}) => new Redis(url, { ...options, protocol: 3 });

/** What an application may have as its ioredis. */
export const versions: readonly (readonly [string, Connect])[] = [
  ['ioredis 5', ioredis5],
  ['ioredis 6', ioredis6],
];

/** The same, and all that gives replies other forms. */
export const variants: readonly (readonly [string, Connect])[] = [
  ...versions,
  ['ioredis 6 with protocol 2', (url, options = {}) => new Redis(url, { ...options, protocol: 2 })],
  [
    'ioredis 6 with RESP3 replies',
    (url, options = {}) => new Redis(url, { ...options, protocol: 3, replyMapping: 'resp3' }),
  ],
  ['ioredis 5 with numbers as text', (url) => new Redis5(url, { stringNumbers: true })],
  ['ioredis 6 with numbers as text', (url) => new Redis(url, { stringNumbers: true })],
];

/** The client of an application. Closed after the test. */
export function connectTo(connect: Connect, url: string, options?: CommonOptions): Redis | Redis5 {
  const client = connect(url, options);
  client.on('error', () => {});
  afterTest(() => client.disconnect());
  return client;
}
