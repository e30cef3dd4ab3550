/** Deadlocks in an application with several lock modules, whose keys may be in different places. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  LockDeadlockError,
  LockNotAcquiredError,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENTS } from '../../libs/nestjs-locked/src/core/events/lock-channels.js';
import type { LockEventMessage } from '../../libs/nestjs-locked/src/core/events/lock-messages.js';
import { subscribed } from '../../libs/nestjs-locked/src/core/events/subscribed.js';
import { lockServiceToken } from '../../libs/nestjs-locked/src/nest/decorator/lock-service.token.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { startNest } from '../support/nest-app.js';
import { useRedisServer } from '../support/own-redis.js';
import { errorsOf, expectOneVictim, startRing } from '../support/ring-of-calls.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();
const second = useRedisServer();

/** Waits look for a deadlock after a third of the lease. */
const INTERVAL_MS = 500;
const WAIT_MS = 30_000;

/** Modules beside the one without a name. */
const OTHERS = {
  'another prefix': () => ({ connection: redis.url, keyPrefix: 'other:' }),
  'another database': () => ({ connection: `${redis.url}/1` }),
  'another server': () => ({ connection: second.url }),
  'the same keys': () => ({ connection: redis.url }),
} as const;
type Name = keyof typeof OTHERS;
const NAMES = Object.keys(OTHERS) as Name[];

let plain: LockService;
let services: Record<Name, LockService>;
let deadlocks: LockEventMessage[];

beforeEach(async () => {
  deadlocks = [];
  const end = subscribed<LockEventMessage>(EVENTS, (message) => {
    if (message.event.type === 'deadlock') deadlocks.push(message);
  });
  afterTest(end);
  const common = { leaseMs: 3 * INTERVAL_MS, waitMs: WAIT_MS, shutdownMs: 100 };
  const app = await startNest({
    imports: [
      RedisLockModule.forRoot({ ...common, connection: redis.url }),
      ...NAMES.map((name) => RedisLockModule.forRoot({ ...common, ...OTHERS[name](), name })),
    ],
  });
  plain = app.get(LockService);
  services = Object.fromEntries(
    NAMES.map((name) => [name, app.get<LockService>(lockServiceToken(name))]),
  ) as typeof services;
});

/** A call that has one key, and waits for another one, which somebody has until `done`. */
async function startWait(locks: LockService, has: string, wants: string, done: Promise<void>) {
  const [working, waiting] = [makeGate(), makeGate()];
  const worker = locks.withLock(wants, async () => {
    working.open();
    await done;
  });
  await working.opened;
  const call = locks.withLock(has, () => {
    waiting.open();
    return locks.withLock(wants, () => 'went on');
  });
  await waiting.opened;
  return async () => {
    await worker;
    return call;
  };
}

describe.each(NAMES)('a lock module with %s', (name) => {
  if (name !== 'the same keys')
    it('closes no ring through keys that are called the same in another module', async () => {
      const [a, b, done] = [uniqueKey('a'), uniqueKey('b'), makeGate()];
      const calls = [
        await startWait(plain, a, b, done.opened),
        await startWait(services[name], b, a, done.opened),
      ];
      await sleep(5 * INTERVAL_MS);
      expect((await plain.waits()).filter(({ key }) => key === a)).toEqual([]);
      done.open();
      expect(await Promise.all(calls.map((ended) => ended()))).toEqual(['went on', 'went on']);
      expect(deadlocks).toEqual([]);
    });
  else
    it('is to the other one like another process', async () => {
      const keys = [uniqueKey(), uniqueKey()];
      await expectOneVictim(startRing([plain, services[name]], keys), keys);
      expect(deadlocks).toHaveLength(1);
    });

  it('finds its own ring, inside locks of another module and beside such keys', async () => {
    const keys = [uniqueKey(), uniqueKey()];
    const done = makeGate();
    const beside =
      name === 'the same keys'
        ? []
        : [await startWait(plain, keys[0] as string, keys[1] as string, done.opened)];
    const inside = {
      withLock: <T>(key: string, options: object, work: () => T | Promise<T>) =>
        plain.withLock(uniqueKey('around'), () => services[name].withLock(key, options, work)),
    };
    await expectOneVictim(startRing([inside], keys), keys);
    expect(deadlocks.map(({ service }) => service)).toEqual([name]);
    done.open();
    for (const ended of beside) expect(await ended()).toBe('went on');
  });

  it('finds its ring through calls that hold a lock of another module in between', async () => {
    const [a, b, c] = [uniqueKey('a'), uniqueKey('b'), uniqueKey('c')];
    const [first, holding] = [makeGate(), makeGate()];
    const around = plain.withLock(a, () =>
      services[name].withLock(b, async () => {
        first.open();
        await holding.opened;
        return plain.withLock(c, () => 1);
      }),
    );
    const direct = plain.withLock(c, async () => {
      holding.open();
      await first.opened;
      return plain.withLock(a, () => 2);
    });
    const errors = errorsOf(await Promise.allSettled([around, direct]));
    expect(errors).toEqual([expect.any(LockDeadlockError)]);
    expect(deadlocks).toHaveLength(1);
  });

  it('does not see a ring that leads through another one: it ends with waitMs', async () => {
    const [x, y] = [uniqueKey('x'), uniqueKey('y')];
    const waitMs = 6 * INTERVAL_MS;
    const both = makeGate();
    let holding = 0;
    const call = (outer: LockService, has: string, inner: LockService, wants: string) =>
      outer.withLock(has, async () => {
        if (++holding === 2) both.open();
        await both.opened;
        return inner.withLock(wants, { waitMs }, () => 'went on');
      });
    const from = performance.now();
    const ended = await Promise.allSettled([
      call(plain, x, services[name], y),
      call(services[name], y, plain, x),
    ]);
    const errors = errorsOf(ended);
    expect(errors.length).toBeGreaterThan(0);
    for (const error of errors) {
      expect(error).toBeInstanceOf(LockNotAcquiredError);
      expect(error).not.toBeInstanceOf(LockDeadlockError);
    }
    expect(performance.now() - from).toBeGreaterThan(waitMs - 50);
    expect(deadlocks).toEqual([]);
  });
});

it('ends one wait of each ring, although all modules have one through the same keys', async () => {
  const keys = [uniqueKey(), uniqueKey(), uniqueKey()];
  const apart = NAMES.filter((name) => name !== 'the same keys').map((name) => services[name]);
  const rings = [plain, ...apart].map((service) => startRing([service], keys));
  for (const ring of rings) await expectOneVictim(ring, keys);
  await eventually(() => expect(deadlocks).toHaveLength(rings.length));
});
