import type { NoVote } from './quorum-replies.js';

/**
 * Whether one holder may have the votes of enough nodes, or certainly has them. If none can, the votes are split among
 * requests that came at the same moment, and nobody has the key, although most nodes say that somebody else has it.
 *
 * @param noes what nodes have answered that have voted for others
 * @param unsure how many have not answered: they may have voted for the same one
 * @param needed how many votes are enough
 */
export function heldByOne(
  noes: readonly NoVote[],
  unsure: number,
  needed: number,
): 'held' | 'maybe' | 'split' {
  const votes = new Map<string, number>();
  for (const { holder } of noes) votes.set(holder, (votes.get(holder) ?? 0) + 1);
  const most = Math.max(0, ...votes.values());
  if (most >= needed) return 'held';
  return most + unsure >= needed ? 'maybe' : 'split';
}
