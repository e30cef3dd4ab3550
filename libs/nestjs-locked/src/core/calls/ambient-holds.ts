import { AsyncLocalStorage } from 'node:async_hooks';
import type { Lock } from '../lock.js';
import type { Hold } from '../queue/hold.js';
import type { HeldHere } from './held-here.js';
import { innermostLevel, type Level, levelsInside, withoutReleased } from './levels.js';
import type { Section } from './section.js';

interface Scope {
  /** Of the call inside of which this is, and of those around. */
  readonly innermost: Level;
  /** One of them: `run()` may make the lock of an outer call the current one. */
  readonly current: HeldHere;
}

const NONE: readonly string[] = [];

function isUsable(section: Section): boolean {
  return section.isOpen && !section.hold.isOver;
}

function isNotReleased({ lock }: HeldHere): boolean {
  return lock?.isReleased === false;
}

/** Which holds the present async context has. It inherits them along the await chain; `acquire()` adds none. */
export class AmbientHolds {
  readonly #storage = new AsyncLocalStorage<Scope>();
  /** What the open transaction of this context keeps. */
  readonly #kept: () => readonly Section[];

  constructor(kept: () => readonly Section[]) {
    this.#kept = kept;
  }

  /**
   * The section that a call in this context may join; undefined if the context does not hold the key (any more). Code
   * that a nested call has left behind is still inside of the calls around that one.
   */
  sectionOf(key: string): Section | undefined {
    return (
      this.#innermostOf(key, isUsable) ??
      this.#kept().find((section) => section.hold.key === key && isUsable(section))
    );
  }

  /** The keys that this context holds, or that its transaction keeps. */
  heldKeys(): readonly string[] {
    const kept = this.#kept();
    if (this.#storage.getStore() === undefined && kept.length === 0) return NONE;
    return [...this.#ownSections(), ...kept.filter(isUsable)].map(({ hold }) => hold.key);
  }

  /** The keys that this branch of the context has got since it entered this section. */
  heldSince(section: Section): string[] {
    const { key } = section.hold;
    const isPlace = ({ sections }: HeldHere): boolean => sections.get(key) === section;
    const since = innermost(levelsInside(this.#level, isPlace), isUsable);
    const isHere = innermostLevel(this.#level, isPlace) !== undefined;
    const kept = isHere ? this.#kept().filter(isUsable) : []; // or a transaction keeps this one as well
    return [...since, ...kept].map(({ hold }) => hold.key);
  }

  /** The holds that this context has got itself, without those that its transaction keeps. */
  ownHolds(): Hold[] {
    return this.#ownSections().map(({ hold }) => hold);
  }

  /** The holds of the calls in this context that have not ended, even if they were lost meanwhile. */
  openHolds(): Hold[] {
    return innermost(levelsInside(this.#level), ({ isOpen }) => isOpen).map(({ hold }) => hold);
  }

  get #level(): Level | undefined {
    return this.#storage.getStore()?.innermost;
  }

  #ownSections(): Section[] {
    return innermost(levelsInside(this.#level), isUsable);
  }

  #innermostOf(key: string, isWanted: (section: Section) => boolean): Section | undefined {
    return innermostLevel(this.#level, ({ sections }) => {
      const section = sections.get(key);
      return section !== undefined && isWanted(section);
    })?.sections.get(key);
  }

  /** Whether the code that runs here was begun in the work of this call, or in its `run()`. */
  isInside(here: HeldHere | undefined): boolean {
    return here !== undefined && innermostLevel(this.#level, (it) => it === here) !== undefined;
  }

  /** Whether the code that runs here belongs to a call that joined one of these sections and has not ended. */
  isInsideCallThatJoined(sections: readonly Section[]): boolean {
    return sections.some((section) => {
      const { hold } = section;
      const inside = this.#innermostOf(hold.key, (other) => other.isOpen || other === section);
      return inside !== section && inside?.hold === hold;
    });
  }

  /**
   * The innermost lock of this context, or the innermost that has this key and is held; undefined when it is not held
   * any more. Code that a nested call has left behind finds that of the call around it.
   */
  current(key?: string): Lock | undefined {
    const scope = this.#storage.getStore();
    if (scope === undefined) return undefined;
    if (key !== undefined) {
      return innermostLevel(
        scope.innermost,
        ({ lock, sections }) => lock?.isOver === false && sections.has(key),
      )?.lock;
    }
    // If the innermost one was lost, the work must learn of it: one around that is no substitute.
    const { innermost: level, current } = scope;
    const lock = (isNotReleased(current) ? current : innermostLevel(level, isNotReleased))?.lock;
    return lock?.isOver === false ? lock : undefined;
  }

  run<T>(here: HeldHere, work: () => T): T {
    const around = withoutReleased(this.#level);
    const isAround = innermostLevel(around, (it) => it === here) !== undefined;
    const level = around !== undefined && isAround ? around : { here, around };
    return this.#storage.run({ innermost: level, current: here }, work);
  }
}

/** Of each key. */
function innermost(held: readonly HeldHere[], isWanted: (section: Section) => boolean): Section[] {
  const byKey = new Map<string, Section>();
  for (const { sections } of held) {
    for (const [key, section] of sections) if (isWanted(section)) byKey.set(key, section);
  }
  return [...byKey.values()];
}
