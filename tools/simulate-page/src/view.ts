/** What the world shows, and what the page may ask of it. All of it crosses the border of a worker. */

export const ACTIONS = [
  'kill',
  'start',
  'pause',
  'resume',
  'cut',
  'restore',
  'restart',
  'lose',
  'failover',
] as const;
export type ActionName = (typeof ACTIONS)[number];

/** Something that was broken, or mended, by hand. */
export interface Action {
  readonly what: ActionName;
  /** Undefined if it is done to the server. */
  readonly process: string | undefined;
  /** In whole microseconds. */
  readonly atMs: number;
}

export const SCENES = ['calm', 'faults'] as const;
export type SceneName = (typeof SCENES)[number];

/** All that a history follows from. */
export interface Script {
  readonly seed: number;
  readonly scene: SceneName;
  /** In the order of time. */
  readonly actions: readonly Action[];
}

/** A moment of a history. Times are in milliseconds of virtual time. */
export interface View {
  readonly now: number;
  readonly isOver: boolean;
  readonly processes: readonly ProcessView[];
  readonly server: ServerView;
  readonly flights: readonly FlightView[];
  readonly spans: readonly Span[];
  /** The last ones, the newest first. */
  readonly log: readonly LogLine[];
  /** Whether a message is on its way that is shown in slow motion. */
  readonly isSlow: boolean;
}

export interface ProcessView {
  readonly name: string;
  readonly state: 'not started' | 'alive' | 'paused' | 'dead' | 'closed';
  readonly isCut: boolean;
  readonly calls: readonly CallView[];
  /** How its last call ended, if that was no success. */
  readonly trouble: LogLine | undefined;
}

export interface CallView {
  readonly name: string;
  readonly keys: readonly string[];
  readonly state: 'waiting' | 'holding' | 'releasing';
  readonly since: number;
  /** Until when it was told that it holds the lock. */
  readonly until: number;
  /** When it last looked, and held the lock. */
  readonly assuredAt: number;
  readonly fence: number;
  /** Whether it has stopped because it held the lock no more. */
  readonly isLost: boolean;
}

export interface ServerView {
  readonly state: 'up' | 'paused' | 'down';
  readonly keys: readonly KeyView[];
  /** No fencing number is above it. */
  readonly fence: number | undefined;
}

export interface KeyView {
  readonly key: string;
  /** The process, another text for what is no process, undefined: nobody. */
  readonly owner: string | undefined;
  readonly leftMs: number;
  readonly leaseMs: number;
  /** The processes that wait, the first one first. */
  readonly queue: readonly string[];
}

export interface FlightView {
  readonly id: number;
  readonly process: string;
  readonly isToServer: boolean;
  readonly label: string;
  /** From 0 to 1; undefined: it does not get through. */
  readonly progress: number | undefined;
  /** Whether it is about a lock, and not about the connection. */
  readonly isTelling: boolean;
}

/** A stretch of time in one row of the picture. */
export interface Span {
  readonly row: string;
  readonly kind: 'waiting' | 'holding' | 'paused' | 'dead' | 'lease' | 'away';
  readonly from: number;
  readonly to: number;
  /** The process whose colour it has. */
  readonly of: string;
  /** For holds: until when the process may believe. */
  readonly until?: number;
}

export interface LogLine {
  readonly at: number;
  readonly text: string;
  readonly tone: 'plain' | 'quiet' | 'good' | 'bad' | 'fault';
}

export type Request =
  | { readonly kind: 'open'; readonly script: Script; readonly atMs: number }
  /** Plays as long as this much time of the reader passes. */
  | { readonly kind: 'play'; readonly forMs: number; readonly speed: number }
  | { readonly kind: 'step' }
  | { readonly kind: 'act'; readonly what: ActionName; readonly process: string | undefined }
  /** The whole history, as `npm run simulate -- --print` prints it. */
  | { readonly kind: 'history' };

export type Answer =
  | { readonly kind: 'view'; readonly view: View; readonly actions: readonly Action[] }
  | { readonly kind: 'history'; readonly lines: readonly string[] };
