/** Rolls back a transaction that will be run again. If code catches it, the commit is refused. */
export class TransactionRestart extends Error {
  constructor(keys: readonly string[]) {
    super(
      `The transaction is rolled back and run again with ${keys.map((key) => `'${key}'`).join(', ')} locked (insideTransaction: 'restart'); do not catch this`,
    );
    this.name = 'TransactionRestart';
  }
}
