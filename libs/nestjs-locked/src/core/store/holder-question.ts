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

/** What the process that was asked answers. */
export interface HolderAnswer {
  readonly kind: 'answer';
  readonly id: string;
  /** Written by `writtenWaits`, perhaps by another version. */
  readonly text: string;
}
