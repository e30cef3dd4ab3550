/** The objects of the transactions whose COMMIT is shown to their scope. */
const seen = new WeakSet<object>();

export function noteSeen(tx: object): void {
  seen.add(tx);
}

/** Called when the body has ended the transaction, so that a later COMMIT belongs to another one. */
export function noteUnseen(tx: object): void {
  seen.delete(tx);
}

/** Whether the COMMIT of this transaction is shown to its scope when it is sent. */
export function seesCommit(tx: object): boolean {
  return seen.has(tx);
}
