import type { ClusterOptions, RedisOptions } from 'ioredis';
import { isIPv6 } from 'node:net';
import { isObject } from '../../../core/arguments.js';
import { LockConfigError } from '../../../core/lock.errors.js';
import { adviceFor, adviceForEach } from '../../../core/option-advice.js';
import { shownValue } from '../../../core/runtime/shown-value.js';
import { invalidConnection } from './connection-error.js';

interface Known {
  /** Its names in other libraries, in lower case. */
  readonly otherNames?: readonly string[];
}

/** The options of ioredis; the compiler requires all of them. ioredis ignores any other, and then uses a default. */
const REDIS_OPTIONS: Readonly<Record<keyof RedisOptions, Known>> = {
  host: { otherNames: ['hostname', 'server', 'address', 'addr', 'endpoint', 'hosts'] },
  port: {},
  path: { otherNames: ['socketpath', 'unixsocket', 'unix'] },
  username: { otherNames: ['user', 'login'] },
  password: { otherNames: ['pass', 'auth', 'auth_pass', 'authpass', 'requirepass', 'secret'] },
  db: { otherNames: ['database', 'dbindex', 'dbnumber', 'index', 'select'] },
  tls: { otherNames: ['ssl', 'secure', 'usetls', 'enabletls', 'tlsoptions'] },
  sentinels: {},
  name: { otherNames: ['mastername', 'master', 'sentinelname', 'sentinelmaster', 'groupname'] },
  keyPrefix: { otherNames: ['prefix'] },
  connectTimeout: { otherNames: ['timeout', 'connectiontimeout'] },
  connectionName: { otherNames: ['clientname'] },
  Connector: {},
  autoPipeliningIgnoredCommands: {},
  autoResendUnfulfilledCommands: {},
  autoResubscribe: {},
  blockingTimeout: {},
  blockingTimeoutGrace: {},
  clientInfoTag: {},
  commandQueue: {},
  commandTimeout: {},
  disableClientInfo: {},
  disconnectTimeout: {},
  enableAutoPipelining: {},
  enableOfflineQueue: {},
  enableReadyCheck: {},
  enableTLSForSentinelMode: {},
  failoverDetector: {},
  family: {},
  himportFieldsets: {},
  keepAlive: {},
  lazyConnect: {},
  maxLoadingRetryTime: {},
  maxRetriesPerRequest: {},
  monitor: {},
  natMap: {},
  noDelay: {},
  offlineQueue: {},
  preferredSlaves: {},
  protocol: {},
  readOnly: {},
  reconnectOnError: {},
  replyMapping: {},
  retryStrategy: {},
  role: {},
  scripts: {},
  sentinelCommandTimeout: {},
  sentinelMaxConnections: {},
  sentinelPassword: {},
  sentinelReconnectStrategy: {},
  sentinelRetryStrategy: {},
  sentinelTLS: {},
  sentinelUsername: {},
  showFriendlyErrorStack: {},
  socketTimeout: {},
  stringNumbers: {},
  updateSentinels: {},
};

const CLUSTER_OPTIONS: Readonly<Record<keyof ClusterOptions | 'cluster', Known>> = {
  cluster: { otherNames: ['nodes', 'rootnodes', 'startupnodes', 'servers'] },
  redisOptions: { otherNames: ['options', 'defaults'] },
  keyPrefix: { otherNames: ['prefix'] },
  natMap: { otherNames: ['nodeaddressmap'] },
  autoPipeliningIgnoredCommands: {},
  clusterNodeRetryStrategy: {},
  clusterRetryStrategy: {},
  dnsLookup: {},
  enableAutoPipelining: {},
  enableOfflineQueue: {},
  enableReadyCheck: {},
  himportFieldsets: {},
  lazyConnect: {},
  maxRedirections: {},
  resolveSrv: {},
  retryDelayOnClusterDown: {},
  retryDelayOnFailover: {},
  retryDelayOnMoved: {},
  retryDelayOnTryAgain: {},
  scaleReads: {},
  scripts: {},
  shardedSubscribers: {},
  showFriendlyErrorStack: {},
  slotsRefreshInterval: {},
  slotsRefreshTimeout: {},
  useSRVRecords: {},
};

/** Of another type, ioredis would end the process with these, or ignore them. */
const DURATION = /(?:Timeout|Interval|RetryTime|keepAlive)$|^retryDelay/;
const FUNCTION = /(?:Strategy|OnError)$/;

const AS_URL = "pass the URL itself: connection: 'redis://localhost:6379'";
const DIRECTLY = 'write its options directly into connection: { host, port, … }';
const AS_CLUSTER = 'for a Redis Cluster, write { cluster: [{ host, port }] }';

/** What other libraries have, and ioredis has elsewhere. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  ...adviceForEach(
    ['url', 'uri', 'href', 'connectionString', 'redisUrl', 'redisURL', 'dsn'],
    AS_URL,
  ),
  ...adviceForEach(
    ['options', 'redisOptions', 'config', 'redis', 'connection', 'client', 'socket'],
    DIRECTLY,
  ),
  ...adviceForEach(['nodes', 'rootNodes', 'startupNodes', 'clusterNodes', 'servers'], AS_CLUSTER),
};

const IN_REDIS_OPTIONS: Readonly<Record<string, string>> = adviceForEach(
  Object.keys(REDIS_OPTIONS),
  'in a cluster, write it in redisOptions',
);

/** The options that ioredis reads, of those with these names. */
export function connectionOptionsIn(names: readonly string[]): readonly string[] {
  return names.filter((name) => Object.hasOwn(REDIS_OPTIONS, name));
}

/** Refuses options with which ioredis would connect to something else, or not at all. @throws LockConfigError */
export function assertRedisOptions(options: object, prefix = ''): void {
  assertNames(options, REDIS_OPTIONS, ELSEWHERE, prefix);
  const { host, port, db, tls, sentinels, name, sentinelTLS } = options as Options;
  assertServer({ host, port }, prefix);
  assertDatabase(db, prefix);
  assertTls(tls, `${prefix}tls`);
  assertTls(sentinelTLS, `${prefix}sentinelTLS`);
  if (sentinels === undefined || sentinels === null) return;
  if (!Array.isArray(sentinels) || sentinels.length === 0 || !sentinels.every(isObject)) {
    throw invalidConnection(
      `sentinels must be a list of servers, such as [{ host: 'sentinel-1', port: 26379 }]`,
    );
  }
  for (const sentinel of sentinels as Options[]) assertServer(sentinel, 'sentinels: ');
  if (typeof name !== 'string' || name === '') {
    throw invalidConnection(
      `sentinels need the name of their master: { sentinels, name: 'mymaster' }; name is ${shownValue(name)}`,
    );
  }
}

/** The same for a Redis Cluster. @throws LockConfigError */
export function assertClusterOptions(options: { readonly cluster: unknown }): void {
  assertNames(options, CLUSTER_OPTIONS, IN_REDIS_OPTIONS, '');
  const { cluster, redisOptions } = options as Options;
  if (!Array.isArray(cluster) || cluster.length === 0) {
    throw invalidConnection(
      `cluster must be a list of nodes, such as [{ host: 'redis-1', port: 6379 }]; a Cluster of ioredis is passed itself, as connection`,
    );
  }
  assertNodes(cluster);
  if (redisOptions === undefined) return;
  if (!isObject(redisOptions)) {
    throw invalidConnection(`redisOptions: ${shownValue(redisOptions)} must be an object`);
  }
  assertRedisOptions(redisOptions, 'redisOptions.');
}

/** ioredis ignores the database of a node. @throws LockConfigError */
export function assertNodes(nodes: readonly unknown[]): void {
  for (const node of nodes) {
    const { host, port, db } = isObject(node) ? (node as Options) : partsOf(String(node));
    assertServer({ host, port }, 'cluster: ');
    if (Number(db ?? 0) !== 0) {
      throw invalidConnection(
        `cluster: a node has the database ${shownValue(db)}, and a Redis Cluster has only database 0; leave it out`,
      );
    }
  }
}

/** @throws LockConfigError */
export function assertDatabase(db: unknown, prefix = ''): void {
  if (db === undefined || db === null || isWhole(db)) return;
  throw invalidConnection(
    `${prefix}db: ${shownValue(db)} must be the number of a database, 0 or more; ioredis would use database 0`,
  );
}

/** Of an object that was written by hand: any value may be anything. */
type Options = Partial<Record<string, unknown>>;

function assertNames(
  options: object,
  table: Readonly<Record<string, Known>>,
  elsewhere: Readonly<Record<string, string>>,
  prefix: string,
): void {
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(table, name)) {
      const advice = adviceFor(name, table, elsewhere, 'ioredis has no such option');
      throw new LockConfigError(`Unknown option 'connection.${prefix}${name}': ${advice}`);
    }
    const value = (options as Options)[name];
    const kind = DURATION.test(name) ? 'number' : FUNCTION.test(name) ? 'function' : undefined;
    if (kind === undefined || value === undefined || value === null || typeof value === kind)
      continue;
    const rule = kind === 'number' ? 'a number of milliseconds' : 'a function';
    throw invalidConnection(`${prefix}${name}: ${shownValue(value)} must be ${rule}`);
  }
}

function assertServer({ host, port }: Options, prefix: string): void {
  if (host !== undefined && host !== null && !isHost(host)) {
    throw invalidConnection(
      `${prefix}host: ${shownValue(host)} must be a host name or an IP address, such as 'redis.internal'; port, user and database have options of their own, and a URL is passed itself, as connection`,
    );
  }
  const isPort = port === undefined || port === null || (isWhole(port) && inRange(Number(port)));
  if (isPort) return;
  throw invalidConnection(
    `${prefix}port: ${shownValue(port)} must be a number from 1 to 65535; is the variable set that has it?`,
  );
}

function isHost(host: unknown): boolean {
  return typeof host === 'string' && (isIPv6(host) || /^[^\s/@:]+$/.test(host));
}

function inRange(port: number): boolean {
  return port >= 1 && port <= 65_535;
}

/** Numbers in variables of the environment are strings. */
function isWhole(value: unknown): boolean {
  if (typeof value === 'string') return /^\d+$/.test(value);
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function partsOf(node: string): Options {
  const [, db] = /[^/]\/(\d+)(?:\?|$)/.exec(node) ?? /[?&]db=(\d+)/.exec(node) ?? [];
  return { db };
}

/** ioredis takes any text for true, also 'false'. */
function assertTls(tls: unknown, name: string): void {
  if (tls === undefined || tls === null || typeof tls === 'boolean') return;
  if (!isObject(tls)) {
    throw invalidConnection(
      `${name}: ${shownValue(tls)} must be an object, such as {}, or { ca } for a certificate authority of your own; leave it out for a connection without TLS`,
    );
  }
  for (const part of ['ca', 'cert', 'key'] as const) {
    for (const text of [(tls as Options)[part]].flat()) {
      if (typeof text === 'string') assertPem(text, `${name}.${part}`);
    }
  }
}

function assertPem(text: string, name: string): void {
  if (!text.includes('-----BEGIN ')) {
    throw invalidConnection(
      `${name}: a string of ${text.length} characters must be the text of a PEM file, which begins with '-----BEGIN '; if it is a path, read the file: readFileSync(path)`,
    );
  }
  if (text.includes('\\n')) {
    throw invalidConnection(
      String.raw`${name} has '\n' as two characters instead of line breaks; pass text.replaceAll('\\n', '\n')`,
    );
  }
}
