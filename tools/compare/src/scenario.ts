import type { RedisServer } from 'dev-servers';

/** What came out of one run of one side. */
export interface Outcome {
  /** Whether the lock did what its user may expect; absent where that is a matter of opinion. */
  readonly holds?: boolean;
  /** The shortest form of it: a number, or a few words. */
  readonly figure: string;
  /** One sentence about what the caller saw; empty if the figure says it. */
  readonly words: string;
}

/** One library, and how it is used. */
export interface Side<Tool> {
  /** The name under which the package is installed in this folder, or ours. */
  readonly library: string;
  /** Its settings, and where they come from; empty if they do not matter. */
  readonly settings: string;
  /** What else is fair to know, such as a version that does better. */
  readonly note?: string | undefined;
  /** Makes of this library what `play` needs, on a Redis of its own. */
  open(server: RedisServer): Promise<Tool> | Tool;
}

/** A side of a scenario, and what is known to come out. */
export interface PlayedSide<Tool> extends Side<Tool> {
  /** What differs from the documented settings: those with which the library does better here. */
  readonly variant?: string | undefined;
  /**
   * The mark and the figure that each of its runs must have, or several if runs may differ. `#` is any number. Whoever
   * changes his behaviour is seen, whether for the better or the worse.
   */
  readonly expected: string | readonly string[];
}

/** The same workload on all sides. */
export interface Scenario<Tool = unknown> {
  readonly title: string;
  /** What all sides have to do. */
  readonly workload: string;
  /** How long one run may take, in milliseconds: whoever has no outcome by then, hangs. @default 30_000 */
  readonly limitMs?: number;
  /** How often each side is played: once where it takes long, or where nothing depends on time. @default 3 */
  readonly repeats?: number;
  /** Our side is about both libraries at once: it needs the peer, too. */
  readonly areBothNeeded?: boolean;
  /** Runs in a process for each side, which is ended afterwards: nothing has to be cleaned up. */
  play(tool: Tool, server: RedisServer): Promise<Outcome>;
  readonly sides: readonly PlayedSide<Tool>[];
}

/** A side, and what comes out. @param variant what differs from the documented settings */
export function played<Tool>(
  expected: string | readonly string[],
  side: Side<Tool>,
  variant?: string,
): PlayedSide<Tool> {
  return { ...side, expected, variant };
}
