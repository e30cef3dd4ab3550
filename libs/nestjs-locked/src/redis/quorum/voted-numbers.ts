import type { Vote } from './quorum-replies.js';

/** Fencing numbers that a lease may use. */
export interface VotedNumbers {
  readonly first: number;
  readonly last: number;
}

/**
 * The numbers of a lease with these votes: from the highest first one, so that they are above all that any node among
 * them knows of, to the highest one that enough nodes have stored. Of any votes that are enough, one is of a node that
 * has stored the numbers used before. So the numbers rise, whichever nodes vote.
 * @param needed how many nodes are enough
 * @returns `last` less than `first` if the clocks of the nodes are too far apart: the number must be stored first
 */
export function votedNumbers(votes: readonly Vote[], needed: number): VotedNumbers {
  const lasts = votes.map(({ last }) => last).sort((a, b) => b - a);
  return {
    first: Math.max(...votes.map(({ first }) => first)),
    last: lasts[needed - 1] as number,
  };
}
