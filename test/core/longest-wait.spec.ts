import { describe, expect, it } from '@jest/globals';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { LockError, LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import type { Unknown } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock, settled } from '../support/fake-clock.js';

const WAIT_MS = 1_500;
/** How much longer a call may take while an answer is outstanding. */
const GRACE_MS = 1_000;
const LIMIT_MS = 5_000;

const UNANSWERED: Unknown = { kind: 'unknown', cause: new LockStoreError('no answer') };

type Command = 'acquire' | 'acquireTogether' | 'recheck' | 'leave' | 'renew' | 'release';
const COMMANDS: readonly Command[] = [
  ...(['acquire', 'acquireTogether', 'recheck'] as const),
  ...(['leave', 'renew', 'release'] as const),
];

/** A store of which some commands are slow, or are not answered within their limit. */
class SlowStore extends InMemoryLockStore {
  constructor(
    locks: InMemoryLocks,
    clock: FakeClock,
    slow: readonly Command[],
    delayMs: number,
    used: Set<string>,
  ) {
    super(locks, 30_000);
    const delay = <T>(name: Command, run: () => Promise<T> | T): Promise<T | Unknown> => {
      used.add(name);
      return new Promise((resolve) => {
        const answer = (): void => resolve(delayMs < LIMIT_MS ? run() : UNANSWERED);
        clock.after(delayMs, answer);
      });
    };
    for (const name of slow) {
      const run = (this[name] as (command: unknown) => never).bind(this);
      const delayed = (command: unknown): unknown => {
        if (name === 'renew')
          return (command as unknown[]).map((one) => delay(name, () => run([one])[0]));
        const reply = delay(name, () => run(command));
        if (name !== 'acquireTogether' || delayMs < LIMIT_MS) return reply;
        return reply.then((unknown) => (command as unknown[]).map(() => unknown));
      };
      Object.assign(this, { [name]: delayed });
    }
  }
}

const TROUBLES: readonly [string, readonly Command[], number][] = [
  ['nothing is answered', COMMANDS, LIMIT_MS],
  ['no renewal is answered', ['renew'], LIMIT_MS],
  ['every answer takes 900 ms', COMMANDS, 900],
  ['the first commands are not answered', ['acquireTogether', 'acquire'], LIMIT_MS],
  ['the last try is not answered', ['leave'], LIMIT_MS],
];

const FIVE = ['a', 'b', 'c', 'd', 'e'];
const fixed = { renew: false, leaseMs: 30_000 };
type Call = (engine: LockEngine, waitMs: number) => Promise<unknown>;
const KINDS: readonly [string, Call][] = [
  ['one key', (engine, waitMs) => engine.acquire('e', { waitMs })],
  ['one key, fixed', (engine, waitMs) => engine.acquire('e', { waitMs, ...fixed })],
  ['several keys', (engine, waitMs) => engine.acquire(FIVE, { waitMs })],
  ['several keys, fixed', (engine, waitMs) => engine.acquire(FIVE, { waitMs, ...fixed })],
  ['several keys, tried', (engine, waitMs) => engine.tryAcquire(FIVE, { waitMs, ...fixed })],
  [
    'several keys inside a call',
    (engine, waitMs) => engine.withLock(FIVE, { waitMs, ...fixed }, async () => {}),
  ],
];

/** The others have a key for this long. */
const TAKEN: readonly number[] = [0, 700, 60_000];
const WAITS: readonly number[] = [0, 100, WAIT_MS];

async function lengthOf(
  call: Call,
  waitMs: number,
  takenMs: number,
  [, slow, delayMs]: (typeof TROUBLES)[number],
  used: Set<string>,
): Promise<number> {
  const clock = new FakeClock();
  const locks = new InMemoryLocks(clock);
  const other = new InMemoryLockStore(locks, 30_000);
  await other.open({
    message: () => {},
    reconnected: () => {},
    inboxLost: () => {},
    storeLost: () => {},
    storeBack: () => {},
    mayEvict: () => {},
  });
  const token = `${other.processId}:1`;
  if (takenMs > 0) await other.acquire({ key: 'c', token, leaseMs: takenMs, nowait: true });
  const store = new SlowStore(locks, clock, slow, delayMs, used);
  const options = resolveServiceOptions({ failFastAfterMs: Infinity, awaitRelease: false });
  const engine = new LockEngine({ store, options, report: () => {}, clock });
  await engine.open();
  const begin = clock.now();
  let end = Infinity;
  const ended = (): void => void (end = clock.now());
  let broken: unknown;
  void call(engine, waitMs).then(ended, (error: unknown) => {
    ended();
    if (!(error instanceof LockError)) broken = error;
  });
  for (let i = 0; i < 200 && end === Infinity; i++) {
    await clock.advance(50);
    await settled();
  }
  if (broken !== undefined) throw broken as Error;
  return end - begin;
}

describe('a call takes no longer than waitMs and the time for one answer', () => {
  it.each(TROUBLES)('while %s', async (...trouble) => {
    const used = new Set<string>();
    const tooLong: string[] = [];
    for (const [kind, call] of KINDS)
      for (const waitMs of WAITS)
        for (const takenMs of TAKEN) {
          const ms = await lengthOf(call, waitMs, takenMs, trouble, used);
          if (ms > waitMs + GRACE_MS + 50) tooLong.push(`${kind}, ${waitMs}, ${takenMs}: ${ms} ms`);
        }
    expect(tooLong).toEqual([]);
    expect([...used]).toEqual(expect.arrayContaining([trouble[1][0]]));
  });
});
