import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from '../lease/hold.js';
import type { Lock } from '../lock.js';
import type { Section } from './section.js';

/** A lock that may be the current one of a context. */
export interface CurrentLock extends Lock {
  /** Whether it is known to be held no longer. */
  readonly isOver: boolean;
}

interface Scope {
  readonly depth: number;
  /** By key. */
  readonly held: ReadonlyMap<string, HeldHere>;
  readonly innermost: HeldHere;
}

/**
 * What a call was given, as its async context keeps it. Whatever was begun there, such as a timer, may keep it for
 * ever, and the next call as well, so it is emptied when the lock is released.
 */
export class HeldHere {
  #lock: CurrentLock | undefined;
  /** By key. */
  readonly #sections: Map<string, Section>;

  constructor(lock: CurrentLock, sections: readonly Section[]) {
    this.#lock = lock;
    this.#sections = new Map(sections.map((section) => [section.hold.key, section]));
  }

  /** What the call was given that holds the keys. */
  get lock(): CurrentLock | undefined {
    return this.#lock;
  }

  get sections(): ReadonlyMap<string, Section> {
    return this.#sections;
  }

  released(): void {
    this.#lock = undefined;
    this.#sections.clear();
  }
}

const NONE: readonly string[] = [];

function isUsable(section: Section): boolean {
  return section.isOpen && !section.hold.isOver;
}

/** Which holds the present async context has. It inherits them along the await chain; `acquire()` adds none. */
export class AmbientHolds {
  readonly #storage = new AsyncLocalStorage<Scope>();
  /** What the open transaction of this context keeps. */
  readonly #kept: () => readonly Section[];

  constructor(kept: () => readonly Section[]) {
    this.#kept = kept;
  }

  /** The section that a call in this context may join; undefined if the context does not hold the key (any more). */
  sectionOf(key: string): Section | undefined {
    const own = this.#storage.getStore()?.held.get(key)?.sections.get(key);
    if (own !== undefined && isUsable(own)) return own;
    return this.#kept().find((section) => section.hold.key === key && isUsable(section));
  }

  /** The keys that this context holds, or that its transaction keeps. */
  heldKeys(): readonly string[] {
    const kept = this.#kept();
    if (this.#storage.getStore() === undefined && kept.length === 0) return NONE;
    return [...this.#ownSections(), ...kept.filter(isUsable)].map(({ hold }) => hold.key);
  }

  /** The keys that this branch of the context has got since it entered this section. */
  heldSince(section: Section): string[] {
    const since = this.#ownSections().filter(
      ({ depth }) => section.depth === undefined || (depth ?? Infinity) > section.depth,
    );
    const kept = section.depth === undefined ? [] : this.#kept().filter(isUsable);
    return [...since, ...kept].map(({ hold }) => hold.key);
  }

  /** The holds that this context has got itself, without those that its transaction keeps. */
  ownHolds(): Hold[] {
    return this.#ownSections().map(({ hold }) => hold);
  }

  /** The holds of the calls in this context that have not ended, even if they were lost meanwhile. */
  openHolds(): Hold[] {
    return this.#sections()
      .filter(({ isOpen }) => isOpen)
      .map(({ hold }) => hold);
  }

  #ownSections(): Section[] {
    return this.#sections().filter(isUsable);
  }

  #sections(): Section[] {
    const sections: Section[] = [];
    for (const [key, { sections: here }] of this.#storage.getStore()?.held ?? []) {
      const section = here.get(key);
      if (section !== undefined) sections.push(section);
    }
    return sections;
  }

  /** Whether the code that runs here belongs to a call that joined one of these sections and has not ended. */
  isInsideCallThatJoined(sections: readonly Section[]): boolean {
    const here = this.#storage.getStore()?.held;
    if (here === undefined) return false;
    return sections.some((section) => {
      const { key } = section.hold;
      const innermost = here.get(key)?.sections.get(key);
      return innermost !== section && innermost?.hold === section.hold && innermost.isOpen;
    });
  }

  /** The innermost lock of this context, or the one that has this key; undefined when it is not held any more. */
  current(key?: string): Lock | undefined {
    const scope = this.#storage.getStore();
    const lock = (key === undefined ? scope?.innermost : scope?.held.get(key))?.lock;
    return lock?.isOver === false ? lock : undefined;
  }

  run<T>(here: HeldHere, work: () => T): T {
    const outer = this.#storage.getStore();
    const depth = (outer?.depth ?? 0) + 1;
    // Without those that were released: a call may begin the next one, without an end.
    const held = new Map([...(outer?.held ?? [])].filter(([, { lock }]) => lock !== undefined));
    for (const [key, section] of here.sections) {
      section.depth ??= depth;
      held.set(key, here);
    }
    return this.#storage.run({ depth, held, innermost: here }, work);
  }
}
