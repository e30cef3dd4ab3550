export interface Finding {
  readonly rule:
    | 'two hold one key'
    | 'too many hold one key'
    | 'two have one slot'
    | 'no permit is idle'
    | 'a text is adopted once'
    | 'a detached lock can be adopted'
    | 'fences rise'
    | 'a holder is told of its end'
    | 'every call ends'
    | 'a wait ends in time'
    | 'a free key is served'
    | 'a dead holder keeps a key for one lease'
    | 'a key is kept'
    | 'no call fails without a reason'
    | 'who waits longer comes first'
    | 'readers do not pass a writer'
    | 'a hand-over is prompt';
  readonly at: number;
  readonly text: string;
  /** Of two that hold one key, the calls: who still acts, and who has entered. */
  readonly calls?: readonly [first: string, second: string];
}
