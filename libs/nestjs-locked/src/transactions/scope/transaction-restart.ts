/** Rolls back a transaction that is going to be run again. Code that catches it is overruled at the commit. */
export class TransactionRestart extends Error {
  constructor(keys: readonly string[]) {
    super(
      `The transaction is rolled back and run again with ${keys.map((key) => `'${key}'`).join(', ')} locked (insideTransaction: 'restart'); do not catch this`,
    );
    this.name = 'TransactionRestart';
  }
}
