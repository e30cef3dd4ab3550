import type { SeededRandom } from 'kit';
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
import { ALL_KEYS, anyKey, COLD_KEYS, HOT_KEYS, LONE_KEYS, LONG_KEYS } from '../keys.js';
import type { Caller, CallOptions, Enter } from './caller.js';
import { OwnSignal } from './own-signal.js';
import type { RecordedCall } from './recorder.js';

interface Kind {
  /** How often it is asked for. */
  readonly weight: number;
  /** Makes one call, together with the calls inside it. */
  readonly play: (caller: Caller, random: SeededRandom) => Promise<unknown>;
}

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

const HOLDS: readonly Enter[] = ['acquire', 'withLock'];

/**
 * Everything that can be asked of a lock service. To find the cause of a violation, leave some of it out: `--without
 * several-keys,branches`.
 */
const REPERTOIRE = {
  acquire: {
    weight: 20,
    play: (caller, random) => caller.call('acquire', 'acquire', [anyKey(random)], label(random)),
  },
  'with-lock': {
    weight: 20,
    play: (caller, random) => caller.call('withLock', 'with-lock', [anyKey(random)], label(random)),
  },
  'several-keys': { weight: 12, play: several },
  /** A lease that is renewed only every two seconds. What Redis forgets must be noticed sooner. */
  'long-lease': {
    weight: 3,
    play: (caller) => holdLong(caller, 'long-lease', { leaseMs: LONG_LEASE_MS }, [500, 2_500]),
  },
  /** A lease that must be renewed several times, whatever happens meanwhile. */
  'long-hold': { weight: 2, play: (caller) => holdLong(caller, 'long-hold', {}, [800, 3_000]) },
  're-entry': { weight: 8, play: reEntry },
  branches: { weight: 6, play: branches },
  'crossed-branches': { weight: 0.5, play: crossedBranches },
  'outliving-branch': { weight: 2, play: outlivingBranch },
  'lock-run': { weight: 5, play: lockRun },
  'aborted-before': { weight: 2, play: abortedBefore },
  'aborted-wait': { weight: 8, play: abortedWait },
  'aborted-in-hand-over': { weight: 6, play: abortedInHandOver },
  try: { weight: 20, play: (caller, random) => tryKeys(caller, 'try', [triedKey(random)]) },
  'try-several': {
    weight: 12,
    play: (caller, random) => {
      const keys = [triedKey(random), random.pick(COLD_KEYS), random.pick(HOT_KEYS)];
      return tryKeys(caller, 'try-several', keys.slice(0, random.between(2, 3)));
    },
  },
  'short-wait': {
    weight: 8,
    play: (caller, random) => {
      const onBusy = random.pick(['throw', 'skip'] as const);
      const options = { waitMs: random.between(1, 120), onBusy };
      return caller.call('withLock', 'short-wait', caller.someKeys(0.7), options);
    },
  },
  'fixed-lease': {
    weight: 7,
    play: (caller, random) => {
      const leaseMs = random.pick([500, 600, 900, 1_500]);
      const ms = random.between(0, random.chance(0.6) ? 30 : leaseMs * 1.3);
      const options = { renew: false, leaseMs };
      return caller.call(random.pick(HOLDS), 'fixed-lease', [anyKey(random)], options, ms);
    },
  },
  'max-hold': {
    weight: 6,
    play: (caller, random) => {
      const maxHoldMs = shortHoldMs(random);
      const options = { maxHoldMs, ...(random.chance(0.3) && { leaseMs: 3_000 }) };
      const ms = random.between(0, maxHoldMs * 2);
      return caller.call(random.pick(HOLDS), 'max-hold', [anyKey(random)], options, ms);
    },
  },
  'hold-at-least': {
    weight: 5,
    play: (caller, random) => {
      const shortWait = random.chance(0.6) && { waitMs: random.pick([0, 20, 100]) };
      const options = { holdAtLeastMs: random.between(1, 150), ...shortWait };
      return caller.call('withLock', 'hold-at-least', caller.someKeys(0.6), options);
    },
  },
  /** A key that nobody combines with others. Whatever happens to other keys must not be noticed here. */
  lone: {
    weight: 8,
    play: (caller, random) => {
      const enter = random.pick(['acquire', 'withLock', 'tryAcquire'] as const);
      const ms = random.chance(0.1) ? random.between(300, 1_200) : random.between(0, 12);
      return caller.call(enter, 'lone', [random.pick(LONE_KEYS)], {}, ms);
    },
  },
  'not-reentrant': { weight: 2, play: notReentrant },
  /** Its lock goes on elsewhere, or ends when nobody adopts it. */
  detach: {
    weight: 5,
    play: (caller, random) =>
      caller.call(
        random.pick(HOLDS),
        'detach',
        caller.someKeys(0.8),
        { alone: true },
        async (...held) => {
          await caller.work(...held);
          const [, lock] = held;
          if (lock.isHeld) await caller.detach(...held);
        },
      ),
  },
} satisfies Record<string, Kind>;

export type KindOfCall = keyof typeof REPERTOIRE;

/** Features that occur in calls of many kinds, and can be left out of all of them. */
export const FEATURES = [
  'any-several-keys',
  'any-fixed-lease',
  'abort-listeners',
  'own-clients',
  'linger',
  'readers',
  'permits',
] as const;
export type Feature = (typeof FEATURES)[number];

export const KINDS_OF_CALL = Object.keys(REPERTOIRE) as KindOfCall[];

/** Makes one call of one of these kinds, together with the calls inside it. */
export async function playOne(caller: Caller, kinds: readonly KindOfCall[]): Promise<void> {
  const total = kinds.reduce((sum, kind) => sum + REPERTOIRE[kind].weight, 0);
  let left = caller.random.next() * total;
  for (const kind of kinds) {
    left -= REPERTOIRE[kind].weight;
    if (left <= 0) return void (await REPERTOIRE[kind].play(caller, caller.random));
  }
}

// ---- one hold ---------------------------------------------------------------------------------------------

function several(caller: Caller, random: SeededRandom): Promise<void> {
  const isFixed = caller.does('any-fixed-lease') && random.chance(0.1);
  const options: CallOptions = {
    ...label(random),
    ...(random.chance(0.15) && { maxHoldMs: shortHoldMs(random) }),
    ...(isFixed && { renew: false, leaseMs: random.between(500, 900) }),
    ...(random.chance(0.05) && { holdAtLeastMs: random.between(10, 60) }),
  };
  return caller.call(random.pick(HOLDS), 'several-keys', caller.severalKeys(), options);
}

function holdLong(
  caller: Caller,
  what: string,
  options: CallOptions,
  [leastMs, mostMs]: readonly [number, number],
): Promise<void> {
  const ms = caller.random.between(leastMs, mostMs);
  return caller.call('withLock', what, [caller.random.pick(LONG_KEYS)], options, ms);
}

function tryKeys(caller: Caller, what: string, keys: readonly string[]): Promise<void> {
  const { random } = caller;
  const ms = random.between(0, 5);
  if (random.chance(0.5)) return caller.call('tryAcquire', what, keys, {}, ms);
  const onBusy = random.pick(['throw', 'skip', () => undefined] as const);
  return caller.call('withLock', what, keys, { waitMs: 0, onBusy }, ms);
}

function triedKey(random: SeededRandom): string {
  return random.pick(random.chance(0.6) ? COLD_KEYS : ALL_KEYS);
}

/** Longer than a busy machine may take between telling a call that it holds its key and beginning its work. */
function shortHoldMs(random: SeededRandom): number {
  return random.between(60, 150);
}

function label(random: SeededRandom): CallOptions {
  return random.chance(0.1) ? { label: `job ${random.between(1, 9)}` } : {};
}

// ---- calls inside of calls --------------------------------------------------------------------------------

/** Calls one after the other and inside each other, with more keys and without. */
function reEntry(caller: Caller, random: SeededRandom): Promise<void> {
  const key = anyKey(random);
  const deeper = async (parent: RecordedCall, depth: number): Promise<void> => {
    const keys = random.chance(0.3) ? withLater(caller, key) : [key];
    const enter = random.chance(0.3) ? 'acquire' : random.chance(0.2) ? 'tryAcquire' : 'withLock';
    const options = { parent, ...aroundBranch(keys) };
    await caller.call(enter, 're-entry', keys, options, async (call, lock) => {
      await caller.work(call, lock);
      // Only `withLock` can be joined. Inside the others, a call would wait for the turn that they have.
      if (enter === 'withLock' && depth > 1) await deeper(call, depth - 1);
    });
  };
  return caller.call('withLock', 're-entry', [key], shortenedHold(caller), async (call, lock) => {
    await caller.work(call, lock);
    for (let n = random.between(1, 3); n > 0; n--) await deeper(call, 2);
  });
}

/** Calls side by side, which take turns on the keys of their parent. */
function branches(caller: Caller, random: SeededRandom): Promise<void> {
  const keys = caller.someKeys(0.7);
  const branch = async (parent: RecordedCall): Promise<void> => {
    const key = random.pick(keys);
    const wanted = random.chance(0.3) ? withLater(caller, key) : [key];
    const options = aroundBranch(wanted);
    await caller.call('withLock', 'branch', wanted, { parent, ...options }, async (call, lock) => {
      await caller.work(call, lock, random.between(0, 50));
      if (!random.chance(0.2)) return;
      const inside = { parent: call, ...options };
      await caller.call('withLock', 'in-branch', [key], inside, random.between(0, 5));
    });
  };
  return caller.call('withLock', 'branches', keys, shortenedHold(caller), async (parent, lock) => {
    if (random.chance(0.3)) await caller.work(parent, lock);
    await Promise.all(Array.from({ length: random.between(2, 4) }, () => branch(parent)));
  });
}

/** Two branches that want each other's key without limit. One of them must be sent away. */
function crossedBranches(caller: Caller, random: SeededRandom): Promise<void> {
  const [first, second] = ['m1', 'm2'] as const;
  const waitMs = random.chance(0.5) ? Infinity : 500;
  // Permits tell nobody who waits for whom.
  const alone = true;
  return caller.call('withLock', 'crossed-branches', [first], { alone }, async (parent) => {
    const rescue = new OwnSignal();
    const timer = setTimeout(() => {
      parent.wrong(`has two branches that waited for each other for ${RESCUE_MS} ms`);
      rescue.abort();
    }, RESCUE_MS);
    const branch = (keys: string[], outer: RecordedCall, work: Parameters<Caller['call']>[4]) => {
      const options = { ...rescue.options, waitMs, parent: outer, alone };
      return caller.call('withLock', 'crossed-branch', keys, options, work);
    };
    const cross = (one: string, other: string): Promise<void> =>
      branch([one], parent, async (call) => {
        await sleep(20);
        await branch([other], call, async () => {});
      });
    await Promise.all([cross(first, second), cross(second, first)]);
    clearTimeout(timer);
  });
}

/** A call inside that is not awaited. The hold lasts until that call has ended. */
async function outlivingBranch(caller: Caller, random: SeededRandom): Promise<void> {
  const keys = [anyKey(random)];
  let branch = Promise.resolve();
  await caller.call('withLock', 'outlived', keys, shortenedHold(caller), async (parent, lock) => {
    const options = { parent, waitMs: BRANCH_WAIT_MS };
    branch = caller.call('withLock', 'outliving-branch', keys, options, random.between(0, 60));
    await caller.work(parent, lock);
  });
  return branch;
}

/** A lock that was acquired becomes the one of its context. */
function lockRun(caller: Caller, random: SeededRandom): Promise<void> {
  const keys = caller.someKeys(0.7);
  return caller.call('acquire', 'lock-run', keys, shortenedHold(caller), async (parent, lock) => {
    try {
      await lock.run(async () => {
        const options = { parent, waitMs: BRANCH_WAIT_MS };
        const inside = [random.pick(keys)];
        await caller.call('withLock', 'in-lock-run', inside, options);
        await caller.call('acquire', 'in-lock-run', inside, options);
      });
    } catch (error) {
      if (lock.isHeld) parent.wrong(`threw on lock.run(): ${String(error)}`);
    }
  });
}

/** A lock of its own while the context holds the key. The key is busy, because of ourselves. */
function notReentrant(caller: Caller, random: SeededRandom): Promise<void> {
  const keys = [anyKey(random)];
  return caller.call('withLock', 'not-reentrant', keys, {}, async (parent, lock) => {
    await caller.work(parent, lock);
    const options = { parent, reentrant: false, waitMs: random.pick([0, 30]) };
    await caller.call('withLock', 'own-inside', keys, options);
  });
}

/** The hold may end before the calls inside it. A call that comes after that must not join. */
function shortenedHold(caller: Caller): CallOptions {
  const { random } = caller;
  if (random.chance(0.25)) return { maxHoldMs: shortHoldMs(random) };
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

function abortedBefore(caller: Caller): Promise<void> {
  const signal = new OwnSignal();
  signal.abort();
  const keys = caller.someKeys(0.5);
  return caller.call('acquire', 'aborted-before', keys, signal.options, async (call) =>
    call.wrong('got its keys although its signal was aborted before'),
  );
}

async function abortedWait(caller: Caller, random: SeededRandom): Promise<void> {
  const signal = new OwnSignal();
  const timer = setTimeout(signal.abort, random.between(0, 40));
  await caller.call(random.pick(HOLDS), 'aborted-wait', caller.someKeys(0.6), signal.options);
  clearTimeout(timer);
}

/** A local call is told to stop at the very moment at which the lock is passed to it. */
async function abortedInHandOver(caller: Caller, random: SeededRandom): Promise<void> {
  const key = anyKey(random);
  const { abort, options } = new OwnSignal();
  let second = Promise.resolve();
  const when = random.between(0, 5);
  await caller.call('acquire', 'before-hand-over', [key], {}, async () => {
    const keys = random.chance(0.5) ? withLater(caller, key) : [key];
    second = caller.call('acquire', 'aborted-in-hand-over', keys, options);
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
