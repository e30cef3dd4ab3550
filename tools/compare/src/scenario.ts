import type { RedisServer } from 'dev-servers';

/** What came out on one side. */
export interface Outcome {
  /** Whether the lock did what its user may expect. */
  readonly holds: boolean;
  /** The shortest form of it: a number, or a few words. */
  readonly figure: string;
  /** One sentence about what the caller saw; empty if the figure says it. */
  readonly words: string;
}

/** One library in a scenario. */
export interface Side<Tool> {
  /** Its settings, and where they come from; empty if they do not matter. */
  readonly settings: string;
  /** What else is fair to know, such as a version that does better. */
  readonly note?: string | undefined;
  /** Makes of this library what `play` needs, on a Redis of its own. */
  open(server: RedisServer): Promise<Tool> | Tool;
}

export interface PeerSide<Tool> extends Side<Tool> {
  /** The name under which the package is installed in this folder. */
  readonly library: string;
}

/** The same workload on all sides. */
export interface Scenario<Tool = unknown> {
  readonly title: string;
  /** What all sides have to do. */
  readonly workload: string;
  /** How long one side may take, in milliseconds: whoever has no outcome by then, hangs. @default 30_000 */
  readonly limitMs?: number;
  /** Our side is about both libraries at once: it needs the peer, too. */
  readonly areBothNeeded?: boolean;
  /** Runs in a process for each side, which is ended afterwards: nothing has to be cleaned up. */
  play(tool: Tool, server: RedisServer): Promise<Outcome>;
  readonly peers: readonly PeerSide<Tool>[];
  readonly ours: Side<Tool>;
}
