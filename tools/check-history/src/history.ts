/**
 * One line of a history. `at` is in milliseconds of one clock for all processes; lines are in the order of what they
 * tell, also within one millisecond.
 */
export type HistoryLine = Readonly<{ at: number } & (OfCall | OfProcess | OfServer)>;

/** What a call did, or what it was told. */
export type OfCall = Readonly<
  { process: string; call: string } &
    /**
     * `keepMs`: for how long nobody else gets the keys after it has entered, even if it has left. `mode`: whether it
     * holds the keys alone, which is the default, or together with others that read; or which of them it reads.
     */
    (
      | {
          type: 'called';
          keys: readonly string[];
          waitMs: number;
          leaseMs: number;
          keepMs?: number;
          mode?: 'exclusive' | 'shared' | { readonly reads: readonly string[] };
          /** Those of the keys of which it wants permits, and how many there are of each. */
          permits?: Readonly<Record<string, number>>;
          /** How many of them it wants. @default 1 */
          weight?: number;
          /** It goes on under a lock that another call has detached, as this text. */
          adopts?: string;
        }
      /** It may act now. `believed`: whether it was told that it holds the lock. */
      | {
          type: 'entered';
          fences: Readonly<Record<string, number>>;
          /** Of permits: which of them it has of each key. */
          slots?: Readonly<Record<string, number>>;
          believed: boolean;
        }
      /** It was told that it holds the lock until then, unless it is told of an earlier end. */
      | { type: 'assured'; until: number }
      /** It has changed what the lock guards, and believed that it holds the lock. */
      | { type: 'effect' }
      | { type: 'left' }
      /** It asks for a text under which another call may go on, and for this time until that does. */
      | { type: 'detaches'; forMs: number }
      /** It has the text. Nobody has its keys any more; in that time, nobody gets them but who adopts the text. */
      | { type: 'detached'; text: string }
      /** `not adopted`: the text is said to be good for nothing any more. */
      | {
          type: 'ended';
          outcome: 'done' | 'busy' | 'aborted' | 'failed' | 'not adopted';
          error?: string;
        }
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
      /** Which, if there are several. */
      server?: string;
      messages: readonly (readonly [channel: string, message: string])[];
    }
  /** `until`: how long what was done lasts, if it is more than a moment. `keys`: which it concerns, if not all. */
  | { type: 'disturbed'; what: string; until?: number; keys?: readonly string[] }
  /**
   * There are so many servers, of which more than half decide. What is said to have happened to the server has then
   * happened to so many of them that the others do not make up for it.
   */
  | { type: 'quorum'; size: number }
  /** One of them cannot be counted on until then: it is away, gives no vote, or its clock was set. */
  | { type: 'node away'; node: string; what: string; until: number }
  /** It accepts no writes that need memory. What is held is still renewed, released and handed on. */
  | { type: 'memory full'; until: number }
  /**
   * A command for this key was sent again on another connection, and what was sent first has arrived only now. If its
   * call is over, it waits or holds for nobody, until its process hears of it.
   */
  | { type: 'arrived late'; key: string }
  /** An operator has taken the key from whoever had it: for a second, nobody gets it. */
  | { type: 'taken away'; key: string }
  /** From here on, packets are neither late nor lost: a message takes a millisecond or two. */
  | { type: 'quiet network' }
  /** The specification of the protocol does not say what happens to this key from here on, or to any. */
  | { type: 'unspecified'; key?: string }
  /** Numbers were forgotten, and the clocks of those that are left may not have reached them. */
  | { type: 'numbers lost' }
  /** Writes may be gone that a client was told of. */
  | { type: 'lost data' }
  /** The server's clock was set forward, so that leases have ended early. */
  | { type: 'clock set forward' }
  /** The server's clock was set back, so that what it keeps until a time lasts longer. */
  | { type: 'clock set back'; byMs: number }
  /** From here on, nothing is disturbed any more. */
  | { type: 'calm' }
>;
