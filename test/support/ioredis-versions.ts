import { Redis, type RedisOptions } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { afterTest } from './after-test.js';

/** The options that ioredis 5 and 6 have in common. */
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

/** The versions of ioredis that an application may use. */
export const versions: readonly (readonly [string, Connect])[] = [
  ['ioredis 5', ioredis5],
  ['ioredis 6', ioredis6],
];

/** These versions, and all settings that change the format of replies. */
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

/** Opens a client as an application does. Closed after the test. */
export function connectTo(connect: Connect, url: string, options?: CommonOptions): Redis | Redis5 {
  const client = connect(url, options);
  client.on('error', () => {});
  afterTest(() => client.disconnect());
  return client;
}
