import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from '../lease/hold.js';
import type { Lock } from '../lock.js';
import type { Section } from './section.js';

interface Scope {
  readonly depth: number;
  readonly sections: ReadonlyMap<string, Section>;
  readonly locks: ReadonlyMap<string, Lock>;
  readonly innermost: Lock;
}

const NONE: readonly string[] = [];

function isUsable(section: Section): boolean {
  return section.isOpen && section.hold.isHeld;
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
    const own = this.#storage.getStore()?.sections.get(key);
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

  #ownSections(): Section[] {
    return [...(this.#storage.getStore()?.sections.values() ?? [])].filter(isUsable);
  }

  /** Whether the code that runs here belongs to a call that joined one of these sections and has not ended. */
  isInsideCallThatJoined(sections: readonly Section[]): boolean {
    const here = this.#storage.getStore()?.sections;
    if (here === undefined) return false;
    return sections.some((section) => {
      const innermost = here.get(section.hold.key);
      return innermost !== section && innermost?.hold === section.hold && innermost.isOpen;
    });
  }

  /** The innermost lock of this context, or the one that has this key; undefined when it is not held any more. */
  current(key?: string): Lock | undefined {
    const scope = this.#storage.getStore();
    const lock = key === undefined ? scope?.innermost : scope?.locks.get(key);
    return lock?.isHeld === true ? lock : undefined;
  }

  run<T>(lock: Lock, sections: readonly Section[], work: () => T): T {
    const outer = this.#storage.getStore();
    const depth = (outer?.depth ?? 0) + 1;
    const scope = {
      depth,
      sections: new Map(outer?.sections),
      locks: new Map(outer?.locks),
      innermost: lock,
    };
    for (const section of sections) {
      section.depth ??= depth;
      scope.sections.set(section.hold.key, section);
      scope.locks.set(section.hold.key, lock);
    }
    return this.#storage.run(scope, work);
  }
}
