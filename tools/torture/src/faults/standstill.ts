interface Pausable {
  pause(): void;
  resume(): void;
}

/** How many faults let each of them stand still now. */
const PAUSES = new WeakMap<Pausable, number>();

/**
 * Lets a server or a worker stand still. Several faults may do so at once, and none of them wakes it up for the others:
 * a master that is to be replaced would go on, and nobody would replace it.
 * @returns goes on, unless another fault wants it to stand still
 */
export function standStill(one: Pausable): () => void {
  PAUSES.set(one, (PAUSES.get(one) ?? 0) + 1);
  one.pause();
  return () => {
    const others = (PAUSES.get(one) ?? 1) - 1;
    PAUSES.set(one, others);
    if (others === 0) one.resume();
  };
}
