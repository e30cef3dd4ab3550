/** The transactions whose COMMIT is shown to their scope, by what stands for them. */
const seen = new WeakSet<object>();

export function noteSeen(tx: object): void {
  seen.add(tx);
}

/** The body has ended it, so that its COMMIT is that of another one. */
export function noteUnseen(tx: object): void {
  seen.delete(tx);
}

/** Whether the COMMIT of this transaction is shown to its scope when it is sent. */
export function seesCommit(tx: object): boolean {
  return seen.has(tx);
}
