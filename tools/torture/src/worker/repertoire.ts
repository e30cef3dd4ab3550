import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
import { ALL_KEYS, anyKey, COLD_KEYS, HOT_KEYS, LONE_KEYS, LONG_KEYS } from '../keys.js';
import type { Caller, CallOptions } from './caller.js';
import type { RecordedCall } from './recorder.js';

type Play = (caller: Caller) => Promise<unknown>;

/** Of the calls that hold a key for long. */
export const LONG_LEASE_MS = 6_000;

/** How long branches of one call wait: for each other, not for strangers. */
const BRANCH_WAIT_MS = 5_000;
/** How long a call waits against the order of keys: only for a moment, because the others may wait for it. */
const AGAINST_ORDER_WAIT_MS = 200;
/**
 * A call that waits without limit, in branches that may wait for each other, is released by its signal. That is longer
 * than any fault, because the key may be on a server that is away.
 */
const RESCUE_MS = 15_000;

/**
 * Everything that can be asked of a lock service, with how often it is asked. To find the cause of a violation, leave
 * some of it out: `--without several-keys,branches`.
 */
const REPERTOIRE = {
  acquire: { weight: 20, play: acquire },
  'with-lock': { weight: 20, play: withLock },
  'several-keys': { weight: 12, play: several },
  'long-lease': { weight: 3, play: longLease },
  'long-hold': { weight: 2, play: longHold },
  're-entry': { weight: 8, play: reEntry },
  branches: { weight: 6, play: branches },
  'crossed-branches': { weight: 0.5, play: crossedBranches },
  'outliving-branch': { weight: 2, play: outlivingBranch },
  'lock-run': { weight: 5, play: lockRun },
  'aborted-before': { weight: 2, play: abortedBefore },
  'aborted-wait': { weight: 8, play: abortedWait },
  'aborted-in-hand-over': { weight: 6, play: abortedInHandOver },
  try: { weight: 20, play: tryOnce },
  'try-several': { weight: 12, play: trySeveral },
  'short-wait': { weight: 8, play: shortWait },
  'fixed-lease': { weight: 7, play: fixedLease },
  'max-hold': { weight: 6, play: maxHold },
  'hold-at-least': { weight: 5, play: holdAtLeast },
  lone: { weight: 8, play: lone },
  'not-reentrant': { weight: 2, play: notReentrant },
} satisfies Record<string, { weight: number; play: Play }>;

export type KindOfCall = keyof typeof REPERTOIRE;

/** Features that occur in calls of many kinds, and can be left out of all of them. */
export const FEATURES = [
  'any-several-keys',
  'any-fixed-lease',
  'abort-listeners',
  'own-clients',
  'linger',
] as const;
export type Feature = (typeof FEATURES)[number];

export const KINDS_OF_CALL = Object.keys(REPERTOIRE) as KindOfCall[];

/** Makes one call of one of these kinds, together with the calls inside it. */
export async function playOne(caller: Caller, kinds: readonly KindOfCall[]): Promise<void> {
  const total = kinds.reduce((sum, kind) => sum + REPERTOIRE[kind].weight, 0);
  let left = caller.random.next() * total;
  for (const kind of kinds) {
    left -= REPERTOIRE[kind].weight;
    if (left <= 0) return void (await REPERTOIRE[kind].play(caller));
  }
}

// ---- one hold ---------------------------------------------------------------------------------------------

function acquire(caller: Caller): Promise<unknown> {
  const options = label(caller);
  return caller.acquire('acquire', [anyKey(caller.random)], options, (call, lock) =>
    caller.work(call, lock),
  );
}

function withLock(caller: Caller): Promise<unknown> {
  const options = label(caller);
  return caller.withLock('with-lock', [anyKey(caller.random)], options, (call, lock) =>
    caller.work(call, lock),
  );
}

/** A key that nobody combines with others. Whatever happens to other keys must not be noticed here. */
function lone(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const enter = random.pick(['acquire', 'withLock', 'tryAcquire'] as const);
  return caller[enter]('lone', [random.pick(LONE_KEYS)], {}, (call, lock) =>
    caller.work(
      call,
      lock,
      random.chance(0.1) ? random.between(300, 1_200) : random.between(0, 12),
    ),
  );
}

function several(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const keys = caller.severalKeys();
  const options: CallOptions = {
    ...label(caller),
    ...(random.chance(0.15) && { maxHoldMs: shortHoldMs(caller) }),
    ...(caller.does('any-fixed-lease') &&
      random.chance(0.1) && { renew: false, leaseMs: random.between(500, 900) }),
    ...(random.chance(0.05) && { holdAtLeastMs: random.between(10, 60) }),
  };
  const enter = random.chance(0.5) ? 'acquire' : 'withLock';
  return caller[enter]('several-keys', keys, options, (call, lock) => caller.work(call, lock));
}

/** A lease that is renewed only every two seconds. What Redis forgets must be noticed sooner. */
function longLease(caller: Caller): Promise<unknown> {
  const { random } = caller;
  return caller.withLock(
    'long-lease',
    [random.pick(LONG_KEYS)],
    { leaseMs: LONG_LEASE_MS },
    (call, lock) => caller.work(call, lock, random.between(500, 2_500)),
  );
}

/** A lease that must be renewed several times, whatever happens meanwhile. */
function longHold(caller: Caller): Promise<unknown> {
  const { random } = caller;
  return caller.withLock('long-hold', [random.pick(LONG_KEYS)], {}, (call, lock) =>
    caller.work(call, lock, random.between(800, 3_000)),
  );
}

function fixedLease(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const leaseMs = random.pick([500, 600, 900, 1_500]);
  const options = { renew: false, leaseMs };
  const ms = random.chance(0.6) ? random.between(0, 30) : random.between(0, leaseMs * 1.3);
  const enter = random.chance(0.5) ? 'acquire' : 'withLock';
  return caller[enter]('fixed-lease', [anyKey(random)], options, (call, lock) =>
    caller.work(call, lock, ms),
  );
}

function maxHold(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const maxHoldMs = shortHoldMs(caller);
  const options = random.chance(0.3) ? { maxHoldMs, leaseMs: 3_000 } : { maxHoldMs };
  const enter = random.chance(0.5) ? 'acquire' : 'withLock';
  return caller[enter]('max-hold', [anyKey(random)], options, (call, lock) =>
    caller.work(call, lock, random.between(0, maxHoldMs * 2)),
  );
}

function holdAtLeast(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const options = { holdAtLeastMs: random.between(1, 150), ...shortOrNoWait(caller) };
  const keys = random.chance(0.4) ? caller.severalKeys() : [anyKey(random)];
  return caller.withLock('hold-at-least', keys, options, (call, lock) => caller.work(call, lock));
}

// ---- tries ------------------------------------------------------------------------------------------------

function tryOnce(caller: Caller): Promise<unknown> {
  return tryKeys(caller, 'try', [triedKey(caller)]);
}

function trySeveral(caller: Caller): Promise<unknown> {
  const keys = [triedKey(caller), caller.random.pick(COLD_KEYS), caller.random.pick(HOT_KEYS)];
  return tryKeys(caller, 'try-several', keys.slice(0, caller.random.between(2, 3)));
}

function tryKeys(caller: Caller, what: string, keys: readonly string[]): Promise<unknown> {
  const { random } = caller;
  const work = (call: RecordedCall, lock: Parameters<Caller['work']>[1]): Promise<void> =>
    caller.work(call, lock, random.between(0, 5));
  if (random.chance(0.5)) return caller.tryAcquire(what, keys, {}, work);
  const onBusy = random.pick(['throw', 'skip', () => undefined] as const);
  return caller.withLock(what, keys, { waitMs: 0, onBusy }, work);
}

function triedKey({ random }: Caller): string {
  return random.pick(random.chance(0.6) ? COLD_KEYS : ALL_KEYS);
}

function shortWait(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const keys = random.chance(0.3) ? caller.severalKeys() : [anyKey(random)];
  const onBusy = random.pick(['throw', 'skip'] as const);
  return caller.withLock(
    'short-wait',
    keys,
    { waitMs: random.between(1, 120), onBusy },
    (call, lock) => caller.work(call, lock),
  );
}

function shortOrNoWait({ random }: Caller): CallOptions {
  return random.chance(0.6) ? { waitMs: random.pick([0, 20, 100]) } : {};
}

// ---- calls inside of calls --------------------------------------------------------------------------------

/** Calls one after the other and inside each other, with more keys and without. */
function reEntry(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const key = anyKey(random);
  const deeper = async (parent: RecordedCall, depth: number): Promise<void> => {
    const keys = random.chance(0.3) ? withLater(caller, key) : [key];
    const enter = random.chance(0.3) ? 'acquire' : random.chance(0.2) ? 'tryAcquire' : 'withLock';
    await caller[enter]('re-entry', keys, { parent, ...aroundBranch(keys) }, async (call, lock) => {
      await caller.work(call, lock);
      // Only `withLock` can be joined. Inside the others, a call would wait for the turn that they have.
      if (enter === 'withLock' && depth > 1) await deeper(call, depth - 1);
    });
  };
  return caller.withLock('re-entry', [key], shortenedHold(caller), async (call, lock) => {
    await caller.work(call, lock);
    for (let n = random.between(1, 3); n > 0; n--) await deeper(call, 2);
  });
}

/** Calls side by side, which take turns on the keys of their parent. */
function branches(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const keys = random.chance(0.3) ? caller.severalKeys() : [anyKey(random)];
  return caller.withLock('branches', keys, shortenedHold(caller), async (parent, lock) => {
    if (random.chance(0.3)) await caller.work(parent, lock);
    await Promise.all(
      Array.from({ length: random.between(2, 4) }, async () => {
        const key = random.pick(keys);
        const wanted = random.chance(0.3) ? withLater(caller, key) : [key];
        const options = { parent, ...aroundBranch(wanted) };
        await caller.withLock('branch', wanted, options, async (call, branch) => {
          await caller.work(call, branch, random.between(0, 50));
          if (!random.chance(0.2)) return;
          await caller.withLock('in-branch', [key], { ...options, parent: call }, (inner, deep) =>
            caller.work(inner, deep, random.between(0, 5)),
          );
        });
      }),
    );
  });
}

/** Two branches that want each other's key without limit. One of them must be sent away. */
function crossedBranches(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const [first, second] = ['m1', 'm2'] as const;
  const isEndless = random.chance(0.5);
  return caller.withLock('crossed-branches', [first], {}, async (parent) => {
    const rescue = new AbortController();
    const asked: RecordedCall[] = [];
    const timer = setTimeout(() => {
      for (const call of asked) call.aborted();
      caller.recorder.wrong(
        `two branches of ${parent.id} waited for each other for ${RESCUE_MS} ms`,
      );
      rescue.abort();
    }, RESCUE_MS);
    const options = {
      waitMs: isEndless ? Infinity : 500,
      signal: rescue.signal,
      onAsked: (call: RecordedCall) => void asked.push(call),
    };
    const cross = (one: string, other: string): Promise<unknown> =>
      caller.withLock('crossed-branch', [one], { ...options, parent }, async (call) => {
        await sleep(20);
        await caller.withLock(
          'crossed-branch',
          [other],
          { ...options, parent: call },
          async () => {},
        );
      });
    await Promise.all([cross(first, second), cross(second, first)]);
    clearTimeout(timer);
  });
}

/** A call inside that is not awaited. The hold lasts until that call has ended. */
async function outlivingBranch(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const key = anyKey(random);
  let branch: Promise<unknown> = Promise.resolve();
  await caller.withLock('outlived', [key], shortenedHold(caller), async (parent, lock) => {
    const options = { parent, waitMs: BRANCH_WAIT_MS };
    branch = caller.withLock('outliving-branch', [key], options, (call, inner) =>
      caller.work(call, inner, random.between(0, 60)),
    );
    await caller.work(parent, lock);
  });
  return branch;
}

/** A lock that was acquired becomes the one of its context. */
function lockRun(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const keys = random.chance(0.3) ? caller.severalKeys() : [anyKey(random)];
  return caller.acquire('lock-run', keys, shortenedHold(caller), async (call, lock) => {
    try {
      await lock.run(async () => {
        const options = { parent: call, waitMs: BRANCH_WAIT_MS };
        const key = random.pick(keys);
        await caller.withLock('in-lock-run', [key], options, (inner, joined) =>
          caller.work(inner, joined),
        );
        await caller.acquire('in-lock-run', [key], options, (inner, joined) =>
          caller.work(inner, joined),
        );
      });
    } catch (error) {
      if (lock.isHeld) caller.recorder.wrong(`lock.run() of ${call.id} threw ${String(error)}`);
    }
  });
}

/** A lock of its own while the context holds the key. The key is busy, because of ourselves. */
function notReentrant(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const key = anyKey(random);
  return caller.withLock('not-reentrant', [key], {}, async (parent, lock) => {
    await caller.work(parent, lock);
    const options = { parent, reentrant: false, waitMs: random.pick([0, 30]) };
    await caller.withLock('own-inside', [key], options, (call, own) => caller.work(call, own));
  });
}

/** The hold may end before the calls inside it. A call that comes after that must not join. */
function shortenedHold(caller: Caller): CallOptions {
  const { random } = caller;
  if (random.chance(0.25)) return { maxHoldMs: shortHoldMs(caller) };
  if (caller.does('any-fixed-lease') && random.chance(0.1)) return { renew: false, leaseMs: 500 };
  return {};
}

/**
 * One more key that sorts after this one, so that nobody waits in the other order; or any other key, with a short wait.
 */
function withLater(caller: Caller, key: string): string[] {
  const { random } = caller;
  if (!caller.does('any-several-keys')) return [key];
  const behind = ALL_KEYS.filter((other) => other > key);
  return [key, random.chance(0.7) && behind.length > 0 ? random.pick(behind) : anyKey(random)];
}

function aroundBranch(keys: readonly string[]): CallOptions {
  return { waitMs: new Set(keys).size > 1 ? AGAINST_ORDER_WAIT_MS : BRANCH_WAIT_MS };
}

// ---- signals ----------------------------------------------------------------------------------------------

function abortedBefore(caller: Caller): Promise<unknown> {
  const keys = caller.random.chance(0.5) ? caller.severalKeys() : [anyKey(caller.random)];
  const options = { signal: AbortSignal.abort(), onAsked: (call: RecordedCall) => call.aborted() };
  return caller.acquire('aborted-before', keys, options, async (call): Promise<void> => {
    caller.recorder.wrong(`${call.id} got its keys although its signal was aborted before`);
  });
}

async function abortedWait(caller: Caller): Promise<void> {
  const { random } = caller;
  const keys = random.chance(0.4) ? caller.severalKeys() : [anyKey(random)];
  const controller = new AbortController();
  let asked: RecordedCall | undefined;
  const timer = setTimeout(
    () => {
      if (asked?.wasHeld === false) asked.aborted();
      controller.abort();
    },
    random.between(0, 40),
  );
  const options = {
    signal: controller.signal,
    onAsked: (call: RecordedCall) => void (asked = call),
  };
  const enter = random.chance(0.5) ? 'acquire' : 'withLock';
  await caller[enter]('aborted-wait', keys, options, (call, lock) => caller.work(call, lock));
  clearTimeout(timer);
}

/** A local call is told to stop at the very moment at which the lock is passed to it. */
async function abortedInHandOver(caller: Caller): Promise<unknown> {
  const { random } = caller;
  const key = anyKey(random);
  const controller = new AbortController();
  let second: Promise<unknown> = Promise.resolve();
  let asked: RecordedCall | undefined;
  const abort = (): void => {
    if (asked?.wasHeld === false) asked.aborted();
    controller.abort();
  };
  const when = random.between(0, 5);
  await caller.acquire('before-hand-over', [key], {}, async () => {
    const keys = random.chance(0.5) ? withLater(caller, key) : [key];
    const options = {
      signal: controller.signal,
      onAsked: (call: RecordedCall) => void (asked = call),
    };
    second = caller.acquire('aborted-in-hand-over', keys, options, (call, lock) =>
      caller.work(call, lock),
    );
    await sleep(random.between(0, 10));
    if (when === 0) abort();
    if (when === 1) queueMicrotask(abort);
    if (when === 2) process.nextTick(abort);
    if (when === 3) void Promise.resolve().then(() => queueMicrotask(abort));
  });
  if (when === 4) abort();
  if (when === 5) void immediate().then(abort);
  return second;
}

/** Longer than a busy machine may take between telling a call that it holds its key and beginning its work. */
function shortHoldMs({ random }: Caller): number {
  return random.between(60, 150);
}

function label({ random }: Caller): CallOptions {
  return random.chance(0.1) ? { label: `job ${random.between(1, 9)}` } : {};
}
