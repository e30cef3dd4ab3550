import type { HistoryLine } from 'check-history';
import type { LabEvent } from '../work/events.js';
import type { Traffic } from '../work/messages.js';
import type { Finding } from './findings.js';

/** One stage in one accident (or in the sale), and what was seen. Times count from its first event. */
export interface Trial {
  readonly stage: string;
  readonly accident: string;
  readonly lanes: readonly string[];
  readonly events: readonly LabEvent[];
  /** What `check-history` has judged. A run that is saved goes without it: it follows from the events. */
  readonly history?: readonly HistoryLine[];
  /** When the lock's key appeared in Redis, was removed or expired, according to Redis itself. */
  readonly keyEvents: readonly KeyEvent[];
  readonly stock: Stock;
  readonly traffic: Traffic;
  /** What the runner saw that no event shows. */
  readonly seen: readonly Seen[];
  readonly findings: readonly Finding[];
  readonly summary: string;
}

export interface KeyEvent {
  readonly at: number;
  readonly kind: 'set' | 'removed' | 'expired';
}

export interface Stock {
  readonly start: number;
  readonly left: number;
  /** According to the rows of purchases, which are only ever added. */
  readonly sold: number;
}

export interface Seen {
  /** undefined if it is worth saying, but neither right nor wrong. */
  readonly finding: Finding | undefined;
  readonly text: string;
}
