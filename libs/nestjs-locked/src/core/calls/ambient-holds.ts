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
  readonly innermost: CurrentLock;
}

interface HeldHere {
  readonly section: Section;
  /** What the call was given that holds the key. */
  readonly lock: CurrentLock;
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
    const own = this.#storage.getStore()?.held.get(key)?.section;
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
    return [...(this.#storage.getStore()?.held.values() ?? [])].map(({ section }) => section);
  }

  /** Whether the code that runs here belongs to a call that joined one of these sections and has not ended. */
  isInsideCallThatJoined(sections: readonly Section[]): boolean {
    const here = this.#storage.getStore()?.held;
    if (here === undefined) return false;
    return sections.some((section) => {
      const innermost = here.get(section.hold.key)?.section;
      return innermost !== section && innermost?.hold === section.hold && innermost.isOpen;
    });
  }

  /** The innermost lock of this context, or the one that has this key; undefined when it is not held any more. */
  current(key?: string): Lock | undefined {
    const scope = this.#storage.getStore();
    const lock = key === undefined ? scope?.innermost : scope?.held.get(key)?.lock;
    return lock?.isOver === false ? lock : undefined;
  }

  run<T>(lock: CurrentLock, sections: readonly Section[], work: () => T): T {
    const outer = this.#storage.getStore();
    const depth = (outer?.depth ?? 0) + 1;
    const held = new Map(outer?.held);
    for (const section of sections) {
      section.depth ??= depth;
      held.set(section.hold.key, { section, lock });
    }
    return this.#storage.run({ depth, held, innermost: lock }, work);
  }
}
