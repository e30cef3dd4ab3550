/**
 * One line of a history. `at` is in milliseconds of one clock for all processes; lines are in the order of what they
 * tell, also within one millisecond.
 */
export type HistoryLine = Readonly<{ at: number } & (OfCall | OfProcess | OfServer)>;

/** What a call did, or what it was told. */
export type OfCall = Readonly<
  { process: string; call: string } & (
    | { type: 'called'; keys: readonly string[]; waitMs: number; leaseMs: number }
    /** It may act now. `believed`: whether it was told that it holds the lock. */
    | { type: 'entered'; fences: Readonly<Record<string, number>>; believed: boolean }
    /** It was told that it holds the lock until then, unless it is told of an earlier end. */
    | { type: 'assured'; until: number }
    /** It has changed what the lock guards, and believed that it holds the lock. */
    | { type: 'effect' }
    | { type: 'left' }
    | { type: 'ended'; outcome: 'done' | 'busy' | 'aborted' | 'failed'; error?: string }
  )
>;

export type OfProcess = Readonly<{
  process: string;
  type: 'paused' | 'continued' | 'died' | 'closed';
}>;

export type OfServer = Readonly<
  /**
   * It has run a script, which nothing interrupts, for this process. `micros`: its clock. `listening`: the channels
   * with a subscriber; `messages`: what the script published.
   */
  | {
      type: 'ran';
      by: string;
      script: string;
      keys: readonly string[];
      args: readonly string[];
      reply: unknown;
      micros: number;
      listening: readonly string[];
      messages: readonly (readonly [channel: string, message: string])[];
    }
  | { type: 'disturbed'; what: string }
  /** Writes may be gone that a client was told of. */
  | { type: 'lost data' }
  /** The server's clock was set forward, so that leases have ended early. */
  | { type: 'clock set forward' }
  | { type: 'clock set back' }
  /** From here on, nothing is disturbed any more. */
  | { type: 'calm' }
>;
