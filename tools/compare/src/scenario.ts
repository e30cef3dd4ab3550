/** What came out on one side. */
export interface Outcome {
  /** Whether the lock did what its user may expect. */
  readonly holds: boolean;
  /** The shortest form of it: a number, or a few words. */
  readonly figure: string;
  /** One sentence about what the caller saw; empty if the figure says it. */
  readonly words: string;
}

export interface Side {
  /** Its settings, and where they come from; empty if they do not matter. */
  readonly settings: string;
  /** Runs in a process of its own, which is ended afterwards: nothing has to be cleaned up. */
  run(): Promise<Outcome>;
}

export interface PeerSide extends Side {
  /** The name under which the package is installed in this folder. */
  readonly library: string;
  /** What else is fair to know, such as a version that does better. */
  readonly note?: string;
}

/** The same workload on both sides. The name of a scenario is that of its file. */
export interface Scenario {
  readonly title: string;
  /** What both sides have to do. */
  readonly workload: string;
  /** How long one side may take, in milliseconds: whoever has no outcome by then, hangs. @default 30_000 */
  readonly limitMs?: number;
  /** Our side is about both libraries at once: it needs the peer, too. */
  readonly areBothNeeded?: boolean;
  readonly peers: readonly PeerSide[];
  readonly ours: Side;
}

export const DEFAULT_LIMIT_MS = 30_000;
