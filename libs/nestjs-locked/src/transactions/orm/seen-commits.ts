/** The transactions whose COMMIT is shown to their scope, by what stands for them. */
const seen = new WeakSet<object>();

export function noteSeen(tx: object): void {
  seen.add(tx);
}

/** Whether the COMMIT of this transaction is shown to its scope when it is sent. */
export function seesCommit(tx: object): boolean {
  return seen.has(tx);
}
