/** A transaction of Sequelize, as far as its nested transactions need it. */
interface SequelizeTransaction {
  /** How it has ended: it refuses statements then. Set when its COMMIT or ROLLBACK is sent. */
  readonly finished?: unknown;
  /** Its nested transactions, on its connection. Each is added here by its constructor. */
  readonly savepoints: SequelizeTransaction[];
}

/**
 * Lets the nested transactions of Sequelize end with the transaction around them. Sequelize asks each one only for its
 * own end: one that nobody awaits would send its statements, and its ROLLBACK TO SAVEPOINT, on a connection that is in
 * somebody else's transaction by then.
 *
 * @param tx what stands for a transaction; left alone if it is not one of Sequelize
 * @param isLocked whether locks were held, or requested, in it: without, Sequelize is left as it is
 */
export function endSavepointsWith(tx: object, isLocked: () => boolean): void {
  if (!isOfSequelize(tx)) return;
  const { savepoints } = tx;
  savepoints.push = (...added) => {
    for (const nested of added) {
      let finished: unknown;
      Object.defineProperty(nested, 'finished', {
        configurable: true,
        enumerable: true,
        get: () => finished ?? (isLocked() ? tx.finished : undefined),
        set: (how: unknown) => (finished = how),
      });
      endSavepointsWith(nested, isLocked);
    }
    return Array.prototype.push.apply(savepoints, added);
  };
}

function isOfSequelize(tx: object): tx is SequelizeTransaction {
  return 'sequelize' in tx && Array.isArray((tx as Partial<SequelizeTransaction>).savepoints);
}
