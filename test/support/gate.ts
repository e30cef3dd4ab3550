export interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
}

/** A promise that one part of a test awaits and another part resolves. */
export function makeGate(): Gate {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}
