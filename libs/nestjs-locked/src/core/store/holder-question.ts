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

/** The holder that was asked. */
export interface Asked {
  /** The token that has the key. */
  readonly token: string;
  /** False if its process receives no messages, so that no answer will come. */
  readonly isHeard: boolean;
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
