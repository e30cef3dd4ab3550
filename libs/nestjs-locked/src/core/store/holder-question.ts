/** Another process, or this one, asks which call has the key, and what it waits for. */
export interface HolderQuestion {
  readonly kind: 'question';
  readonly key: string;
  /** The token that has the key; its process is asked. */
  readonly token: string;
  /** The process that asks. */
  readonly from: string;
  /** Chosen by the process that asks; the answer repeats it. */
  readonly id: string;
}

/** How many of several readers are asked: a key that more processes read at the same time is rare. */
export const MOST_HOLDERS_ASKED = 16;

/** A holder that was asked. */
export interface Asked {
  /** The token that has the key. */
  readonly token: string;
  /** That of its question. */
  readonly id: string;
  /** False if its process receives no messages, so that no answer will come. */
  readonly isHeard: boolean;
  /** Whether those that wait for the key wait for this holder: for a reader, only if the first of them is a writer. */
  readonly keepsOut: boolean;
}

/** What the process that was asked answers. */
export interface HolderAnswer {
  readonly kind: 'answer';
  readonly id: string;
  /** Written by `writtenAnswer`, perhaps by another version. */
  readonly text: string;
}

/** The call that has a key now, which only its process knows. */
export interface PresentCall {
  /** The label of the call or, without one, its method. */
  readonly label: string | undefined;
  /** Since when it has the key, by the clock of its machine. */
  readonly since: Date;
  readonly fencingToken: number;
  /** The trace context of its hold, as W3C's `traceparent`, if its process is instrumented. */
  readonly traceParent: string | undefined;
}
