/** What is logged in the application apart from the results of calls. */
import { describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LockLostError, LockService, LockStoreError, RedisLockModule } from 'nestjs-locked';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { LockLog } from '../../libs/nestjs-locked/src/nest/module/lock-log.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { useRedisServer } from '../support/own-redis.js';
import { RecordingLogger } from '../support/recording-logger.js';

const key = 'stock:1';
const lock = { key, label: 'StockService.take', template: 'stock:<id>' };
const holder = { processId: '', host: 'app-3', pid: 4711, label: 'StockService.take' };
const wait = { processId: '', host: 'app-1', pid: 17, id: '1', since: new Date() };
const cause = new LockStoreError('the reason');

const LINES: readonly (readonly [event: LockEvent, line: RegExp])[] = [
  [
    { type: 'lost', ...lock, error: new LockLostError('It is lost', key, 'expired') },
    /^error It is lost\. Its signal has aborted; /,
  ],
  [
    { type: 'force-released', key, holder },
    /^warn Lock 'stock:1' was taken away from process 4711 on app-3, 'StockService\.take': this process called forceRelease\. The next caller gets it in a second$/,
  ],
  [
    { type: 'force-released', key, holder: undefined },
    /^warn Lock 'stock:1' was taken away: this process called forceRelease\. /,
  ],
  [
    { type: 'outlived', ...lock, label: undefined, by: 'calls' },
    /^warn Lock 'stock:1' is kept although its work has ended: /,
  ],
  [
    { type: 'elected', ...lock, fencingToken: 7 },
    /^log This process leads: it has lock 'stock:1' of 'StockService\.take'$/,
  ],
  [
    { type: 'deposed', ...lock, reason: 'expired' },
    /^log This process no longer leads: lock 'stock:1' of 'StockService\.take' \(expired\)$/,
  ],
  [
    { type: 'leader-failed', ...lock, error: new Error('no mail server'), retryInMs: 1_200.4 },
    /^error The work of the leader under lock 'stock:1' of 'StockService\.take' has failed: no mail server\. The lock is released, and this process campaigns again in 1200 ms$/,
  ],
  [
    { type: 'leader-failed', ...lock, error: 'no', retryInMs: undefined },
    /^error The work of the leader under lock .* has failed: 'no'\. Its campaign has ended$/,
  ],
  [
    { type: 'leader-overdue', ...lock, sinceMs: 10_000 },
    /^warn The work of the leader under lock 'stock:1' .* still runs, 10000 ms after its signal has aborted\. Until it ends, this process does not campaign again: /,
  ],
  [
    { type: 'campaign-failed', ...lock, cause },
    /^warn Cannot campaign for lock 'stock:1' .*, trying again: the reason$/,
  ],
  [
    { type: 'renewal-unknown', ...lock, remainingMs: 900.4, cause, isAway: false },
    /^warn Lock 'stock:1' of 'StockService.take' could not be renewed, trying again for 900 ms: the reason$/,
  ],
  [
    {
      type: 'opposite-orders',
      ring: [
        { held: 'stock:<id>', heldBy: 'Stock.take', wanted: 'order:<id>', wantedBy: 'Orders.pay' },
        { held: 'order:<id>', heldBy: undefined, wanted: 'stock:<id>', wantedBy: undefined },
      ],
    },
    /^warn Locks are nested in opposite orders: 'order:<id>' of 'Orders\.pay' is requested under 'stock:<id>' of 'Stock\.take', and 'stock:<id>' is requested under 'order:<id>'\. Such calls /,
  ],
  [
    { type: 'permits-differ', ...lock, permits: 4, othersPermits: 8 },
    /^warn A call waits for lock 'stock:1' of 'StockService\.take' with permits: 4, while a holder of it counts 8\. Each call is judged by its own number, so more than 4 may hold it at once: usual while a deployment changes the number; otherwise give all calls of a key the same\. This warning is logged once for 'stock:<id>'$/,
  ],
  [
    {
      type: 'deadlock',
      ...lock,
      ring: [
        { ...wait, label: 'StockService.take', holds: ['order:7', 'a'], key: 'stock:1' },
        { ...wait, label: undefined, holds: ['stock:1'], key: 'order:7', pid: 18 },
      ],
    },
    /^error The call that waited for lock 'stock:1' of 'StockService\.take' has ended with LOCK_DEADLOCK, so that others go on: 'StockService\.take' in process 17 on app-1 holds 'order:7', 'a' and waits for 'stock:1'; a call in process 18 on app-1 holds 'stock:1' and waits for 'order:7'$/,
  ],
  [
    {
      type: 'renewed-late',
      ...lock,
      lateMs: 12_000.4,
      remainingMs: 7_999.6,
      leases: 1,
      isBackedUp: false,
    },
    /^warn The lease of lock 'stock:1' of 'StockService\.take' is renewed 12000 ms late, with 8000 ms left: the event loop /,
  ],
  [
    {
      type: 'renewed-late',
      ...lock,
      lateMs: 12_000,
      remainingMs: 8_000,
      leases: 3,
      isBackedUp: false,
    },
    /^warn The lease of lock 'stock:1' of 'StockService\.take' \(and those of 2 more, which have longer\) is renewed /,
  ],
  [
    {
      type: 'renewed-late',
      ...lock,
      lateMs: 12_000,
      remainingMs: 8_000,
      leases: 1,
      isBackedUp: true,
    },
    /^warn The lease of lock 'stock:1' .* was suspended\. Meanwhile the worker thread has renewed it \(renewFrom: 'worker'\), but /,
  ],
  [
    { type: 'backup-lost', cause },
    /^warn Leases are not renewed while the event loop is blocked \(renewFrom: 'worker'\): the reason\. Until /,
  ],
  [
    { type: 'backup-back', awayMs: 5_000.4 },
    /^log Leases are renewed again while the event loop is blocked \(renewFrom: 'worker'\), after 5000 ms$/,
  ],
  [
    { type: 'release-unknown', ...lock, cause, keepMs: 0, isAway: false },
    /^warn Lock 'stock:1' of 'StockService.take' may not have been released; it ends with its lease at the latest: the reason$/,
  ],
  [
    { type: 'release-unknown', ...lock, cause, keepMs: 5, isAway: false },
    /^warn Lock 'stock:1' of 'StockService.take' may become free before its holdAtLeastMs is over, .* 5 ms .*: the reason$/,
  ],
  [
    { type: 'outlived', ...lock, by: 'calls' },
    /^warn Lock 'stock:1' of 'StockService.take' is kept although its work has ended: calls inside it .* not awaited$/,
  ],
  [
    { type: 'outlived', ...lock, by: 'transaction' },
    /^warn Lock 'stock:1' of 'StockService.take' is kept although its work has ended: a transaction .* has not ended$/,
  ],
  [
    { type: 'commit-unknown', ...lock, remainingMs: 900.4 },
    /^error It is unknown whether the transaction under lock 'stock:1' of 'StockService.take' was committed: .* 901 ms$/,
  ],
  [
    { type: 'unread-result', key: 'stock:1', result: 'an object (Readable)' },
    /^warn The work under lock 'stock:1' returned an object \(Readable\) that is read after the lock has been released; /,
  ],
  [
    { type: 'unguarded-clients', connection: 'main' },
    /^warn No 'error' listener is known for the clients of connection 'main': /,
  ],
  [
    { type: 'unfenced-statement', ...lock, connection: 'main' },
    /^warn A statement under lock 'stock:1' of 'StockService.take' is sent outside a transaction on connection 'main'/,
  ],
  [
    { type: 'unfenced-lock', ...lock, connection: 'main' },
    /^warn No transaction was opened under lock 'stock:1' of 'StockService.take', but meanwhile a transaction without a lock was committed on connection 'main'/,
  ],
  [
    { type: 'store-awaited', address: 'redis://redis:6379', cause },
    /^warn Waiting for Redis at redis:\/\/redis:6379: the reason$/,
  ],
  [
    { type: 'store-found', address: 'redis://redis:6379', awaitedMs: 900.4 },
    /^log Connected to Redis at redis:\/\/redis:6379 after 900 ms$/,
  ],
  [{ type: 'store-lost', cause }, /^error Redis is lost: the reason\. /],
  [{ type: 'store-back', awayMs: 900.4 }, /^log Redis is back after 900 ms$/],
  [{ type: 'inbox-lost', cause }, /^error Messages from Redis do not arrive: the reason\. /],
  [{ type: 'inbox-back', awayMs: 900.4 }, /^log Messages from Redis arrive again after 900 ms$/],
  [{ type: 'rights-lost', cause }, /^error Redis refuses what the locks need: the reason\. /],
  [
    { type: 'rights-back', awayMs: 900.4 },
    /^log Redis allows what the locks need again, after 900 ms$/,
  ],
  [
    { type: 'connection-replaced', cause },
    /^warn the reason; it was replaced and works\. .* seems to drop idle connections: /,
  ],
  [
    { type: 'eviction', policy: 'allkeys-lru' },
    /^warn Redis evicts keys .*\(maxmemory-policy allkeys-lru\)/,
  ],
];

function record(): () => string[] {
  const logger = new RecordingLogger();
  Logger.overrideLogger(logger);
  afterTest(() => Logger.overrideLogger(false));
  return () => logger.lines(LOG_CONTEXT);
}

describe('the log', () => {
  it.each(LINES.map(([event, line]) => [event.type, event, line] as const))(
    'has one line for %s',
    (_, event, line) => {
      const lines = record();
      new LockLog().report(event);
      expect(lines()).toEqual([expect.stringMatching(line)]);
    },
  );

  it('does not repeat for each lock that Redis is away, but names the keys that may be free too early', () => {
    const lines = record();
    const log = new LockLog();
    log.report({ type: 'store-lost', cause });
    log.report({ type: 'renewal-unknown', ...lock, remainingMs: 900, cause, isAway: true });
    log.report({ type: 'release-unknown', ...lock, cause, keepMs: 0, isAway: true });
    expect(lines()).toHaveLength(1);
    log.report({ type: 'release-unknown', ...lock, cause, keepMs: 5, isAway: true });
    expect(lines()).toHaveLength(2);
    log.report({ type: 'renewal-unknown', ...lock, remainingMs: 900, cause, isAway: false });
    expect(lines()).toHaveLength(3); // it is on another server
  });

  it('warns once of a device that drops idle connections again and again', () => {
    const lines = record();
    const log = new LockLog();
    for (let times = 0; times < 3; times++) log.report({ type: 'connection-replaced', cause });
    expect(lines()).toHaveLength(1);
  });
});

describe('the log of an application', () => {
  const server = useRedisServer();

  it('says that no messages arrive, and that they arrive again', async () => {
    const setUser = (...rules: string[]): Promise<unknown> =>
      server.admin.call('ACL', 'SETUSER', 'app', ...rules);
    await setUser('on', '>secret', '~*', '&*', '+@all');
    const connection = `redis://app:secret@127.0.0.1:${server.port}`;
    const lockModule = RedisLockModule.forRoot({ connection, leaseMs: 900 });
    const logger = new RecordingLogger();
    const root = { module: class Root {}, imports: [lockModule] };
    const app = await NestFactory.createApplicationContext(root, { logger, abortOnError: false });
    afterTest(() => app.close());
    const lines = (): string[] => logger.lines(LOG_CONTEXT);

    await setUser('resetchannels'); // Redis closes the subscription and refuses a new one
    await eventually(() =>
      expect(lines()).toContainEqual(
        expect.stringMatching(/^error Messages from Redis do not arrive: /),
      ),
    );
    await setUser('allchannels');
    await eventually(() =>
      expect(lines()).toContainEqual(
        expect.stringMatching(/^log Messages from Redis arrive again after \d+ ms$/),
      ),
    );
    await eventually(() => app.get(LockService).ping());
  });
});
