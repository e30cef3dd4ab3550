import { ContextVariable } from '../context-variable.js';
import type { Lock } from '../lock.js';
import type { Hold } from '../queue/hold.js';
import type { HeldHere } from './held-here.js';
import { callsInside, innermostCall, type NestedCall, withoutReleased } from './nested-calls.js';
import { notHeldError } from './not-held-error.js';
import type { ReentryLevel } from './reentry-level.js';

interface Scope {
  /** The innermost call, with the calls around it. */
  readonly innermost: NestedCall;
  /** The current one of these calls; `run()` may select an outer one. */
  readonly current: HeldHere;
}

const NO_HOLDS: readonly Hold[] = [];

function isUsable(level: ReentryLevel): boolean {
  return level.isOpen && !level.hold.isOver;
}

function isNotReleased({ lock }: HeldHere): boolean {
  return lock?.isReleased === false;
}

/** The holds of the current async context, inherited along the await chain; `acquire()` adds none. */
export class AmbientHolds {
  readonly #scope = new ContextVariable<Scope>();
  /** The holds that the open transaction of this context keeps. */
  readonly #kept: () => readonly ReentryLevel[];

  constructor(kept: () => readonly ReentryLevel[]) {
    this.#kept = kept;
  }

  /**
   * The re-entry level that a call in this context may join; undefined if the context does not, or no longer, hold the
   * key. Code left behind by a nested call is still inside the outer calls.
   */
  levelOf(key: string): ReentryLevel | undefined {
    return (
      this.#innermostOf(key, isUsable) ??
      this.#kept().find((level) => level.hold.key === key && isUsable(level))
    );
  }

  /** What this context holds, or what its transaction keeps. */
  holds(): readonly Hold[] {
    const kept = this.#kept();
    if (this.#scope.get() === undefined && kept.length === 0) return NO_HOLDS;
    return [...this.#ownLevels(), ...kept.filter(isUsable)].map(({ hold }) => hold);
  }

  /** What this branch of the context has acquired since it entered this re-entry level. */
  heldSince(level: ReentryLevel): Hold[] {
    const { key } = level.hold;
    const isThisLevel = ({ levels }: HeldHere): boolean => levels.get(key) === level;
    const since = innermost(callsInside(this.#call, isThisLevel), isUsable);
    const isHere = innermostCall(this.#call, isThisLevel) !== undefined;
    const kept = isHere ? this.#kept().filter(isUsable) : []; // otherwise, a transaction keeps this level too
    return [...since, ...kept].map(({ hold }) => hold);
  }

  /** The holds that this context has acquired itself, without those that its transaction keeps. */
  ownHolds(): Hold[] {
    return this.#ownLevels().map(({ hold }) => hold);
  }

  /** The holds of the innermost call in this context that has acquired some itself and still has them. */
  innermostHolds(): readonly Hold[] {
    if (this.#call === undefined) return NO_HOLDS;
    const isOwn = (level: ReentryLevel): boolean => level.isRoot && isUsable(level);
    const here = innermostCall(this.#call, ({ levels }) => [...levels.values()].some(isOwn));
    return [...(here?.levels.values() ?? [])].filter(isOwn).map(({ hold }) => hold);
  }

  /** The holds of the calls in this context that have not ended, even if they were lost since. */
  openHolds(): Hold[] {
    return innermost(callsInside(this.#call), ({ isOpen }) => isOpen).map(({ hold }) => hold);
  }

  get #call(): NestedCall | undefined {
    return this.#scope.get()?.innermost;
  }

  #ownLevels(): ReentryLevel[] {
    return innermost(callsInside(this.#call), isUsable);
  }

  #innermostOf(key: string, isWanted: (level: ReentryLevel) => boolean): ReentryLevel | undefined {
    return innermostCall(this.#call, ({ levels }) => {
      const level = levels.get(key);
      return level !== undefined && isWanted(level);
    })?.levels.get(key);
  }

  /** Whether the running code was started in the work of this call, or in its `run()`. */
  isInside(here: HeldHere | undefined): boolean {
    return here !== undefined && innermostCall(this.#call, (it) => it === here) !== undefined;
  }

  /** Whether the running code belongs to an unfinished call that joined one of these levels. */
  isInsideCallThatJoined(levels: readonly ReentryLevel[]): boolean {
    return levels.some((level) => {
      const { hold } = level;
      const inside = this.#innermostOf(hold.key, (other) => other.isOpen || other === level);
      return inside !== level && inside?.hold === hold;
    });
  }

  /**
   * The innermost lock of this context, or the innermost one with this key; undefined if there is none, or if it was
   * released. A lost lock stays, because its work must learn of the loss: an outer lock is no substitute. Code left
   * behind by a nested call gets the lock of the outer call.
   */
  current(key?: string): Lock | undefined {
    const scope = this.#scope.get();
    if (scope === undefined) return undefined;
    const { innermost: call, current } = scope;
    if (key === undefined && isNotReleased(current)) return current.lock;
    const isWanted = (here: HeldHere): boolean =>
      isNotReleased(here) && (key === undefined || here.levels.has(key));
    return innermostCall(call, isWanted)?.lock;
  }

  /**
   * Returns if every hold of this context is held, including those that its transaction keeps, and if it was left
   * behind by no nested call whose key is free now; with a key, if the innermost hold of that key is held.
   * @throws LockNotHeldError if there is none · LockLostError · LockStoreError while a lease is suspect
   */
  assertHeld(key?: string): void {
    const calls = callsInside(this.#call);
    const ofCalls = calls.flatMap(({ levels }) => [...levels.values()]);
    const open = [...this.#kept(), ...ofCalls].filter(({ isOpen }) => isOpen);
    const asked = key === undefined ? open : open.filter(({ hold }) => hold.key === key).slice(-1);
    for (const { hold } of asked) hold.assertHeld();
    const held = new Set(open.map(({ hold }) => hold.key));
    const ended = calls.flatMap(({ keys }) => keys).filter((it) => !held.has(it));
    const missing = key ?? ended.at(-1);
    if (asked.length > 0 && (missing === undefined || held.has(missing))) return;
    throw notHeldError(missing, [...held], ended.includes(missing ?? ''));
  }

  run<T>(here: HeldHere, work: () => T): T {
    const around = withoutReleased(this.#call);
    const isAround = innermostCall(around, (it) => it === here) !== undefined;
    const call = around !== undefined && isAround ? around : { here, around };
    return this.#scope.run({ innermost: call, current: here }, work);
  }
}

/** The innermost level of each key. */
function innermost(
  held: readonly HeldHere[],
  isWanted: (level: ReentryLevel) => boolean,
): ReentryLevel[] {
  const byKey = new Map<string, ReentryLevel>();
  for (const { levels } of held) {
    for (const [key, level] of levels) if (isWanted(level)) byKey.set(key, level);
  }
  return [...byKey.values()];
}
