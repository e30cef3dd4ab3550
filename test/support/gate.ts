export interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
}

/** Something that one part of a test waits for, and another part lets happen. */
export function makeGate(): Gate {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}
