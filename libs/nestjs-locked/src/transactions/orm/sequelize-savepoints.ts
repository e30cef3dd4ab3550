/** The part of a Sequelize transaction used for its nested transactions. */
interface SequelizeTransaction {
  /** How it has ended, after which it refuses statements. Set when its COMMIT or ROLLBACK is sent. */
  readonly finished?: unknown;
  /** Its nested transactions on the same connection, each added by its constructor. */
  readonly savepoints: SequelizeTransaction[];
}

/**
 * Makes nested transactions of Sequelize end with their outer transaction. Sequelize checks only whether a nested one
 * itself has ended: if not awaited, it would send its statements and its ROLLBACK TO SAVEPOINT on a connection that may
 * be in another transaction by then.
 *
 * @param tx the transaction object; unchanged if it is not from Sequelize
 * @param isLocked whether locks were held or requested in it; without locks, Sequelize behaves as usual
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
