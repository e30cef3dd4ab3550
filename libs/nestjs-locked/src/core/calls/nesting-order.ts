import type { LockNesting } from '../lock-events.js';

/** How many nestings are remembered: templates are few, unless an application makes them up at run time. */
const MOST_NESTINGS = 1_000;

/** What a key is grouped into if nothing is known about it. Two such locks may be anything. */
const ANYTHING = '*';

/**
 * Finds locks that calls nest in opposite orders, before two of these calls meet and wait for each other. Templates
 * stand for keys: all that matters is which kind of lock is requested under which other. The order of several keys in
 * one call, and that of the keys of one template, are the same everywhere anyway.
 */
export class NestingOrder {
  /** By the kind of lock that was held, then by the one that was requested under it. */
  readonly #nestings = new Map<string, Map<string, LockNesting>>();
  #count = 0;

  /**
   * Called when a call requests a lock under another one.
   * @returns the ring of nestings that this one closes, beginning with it; undefined if there is none, or if it is
   * known
   */
  note(nesting: LockNesting): readonly LockNesting[] | undefined {
    const [held, wanted] = [kindOf(nesting.held), kindOf(nesting.wanted)];
    if (held === wanted || held === ANYTHING || wanted === ANYTHING) return undefined;
    const known = this.#nestings.get(held);
    if (known?.has(wanted) === true || this.#count === MOST_NESTINGS) return undefined;
    this.#count++;
    if (known === undefined) this.#nestings.set(held, new Map([[wanted, nesting]]));
    else known.set(wanted, nesting);
    const back = this.#pathTo(held, wanted, new Set());
    return back && [nesting, ...back];
  }

  /** The nestings that lead from one kind to another. */
  #pathTo(to: string, from: string, seen: Set<string>): readonly LockNesting[] | undefined {
    seen.add(from);
    for (const nesting of this.#nestings.get(from)?.values() ?? []) {
      const wanted = kindOf(nesting.wanted);
      if (wanted === to) return [nesting];
      const rest = seen.has(wanted) ? undefined : this.#pathTo(to, wanted, seen);
      if (rest !== undefined) return [nesting, ...rest];
    }
    return undefined;
  }
}

/** What a template locks, whatever its parameters are called: `account:*` for `account:<from>` and `account:<to>`. */
function kindOf(template: string): string {
  return template.replaceAll(/<[^<>]*>/g, ANYTHING);
}
