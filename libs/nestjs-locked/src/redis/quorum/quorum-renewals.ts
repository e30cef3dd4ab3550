import { LockStoreError } from '../../core/lock.errors.js';
import type { RenewCommand, RenewReply, Unknown } from '../../core/store/lock-store.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumPoll } from './quorum-poll.js';
import type { Prolonged } from './quorum-replies.js';
import type { QuorumRequests } from './quorum-requests.js';
import { VOTED_NUMBERS } from './votes.lua.js';
import type { VotesGivenBack } from './votes-given-back.js';

/** A script with more keys would block a node for too long. */
const LEASES_PER_SCRIPT = 100;

/** Renews leases: as long as enough nodes have kept their votes, the others are asked for theirs again. */
export class QuorumRenewals {
  readonly #requests: QuorumRequests;
  readonly #votes: VotesGivenBack;

  constructor(requests: QuorumRequests, votes: VotesGivenBack) {
    this.#requests = requests;
    this.#votes = votes;
  }

  renew(commands: readonly RenewCommand[]): readonly Promise<RenewReply>[] {
    const replies: Promise<RenewReply>[] = [];
    for (let from = 0; from < commands.length; from += LEASES_PER_SCRIPT) {
      const portion = commands.slice(from, from + LEASES_PER_SCRIPT);
      const renewed = this.#renewPortion(portion);
      replies.push(...portion.map((_, i) => renewed.then((all) => all[i] as RenewReply)));
    }
    return replies;
  }

  async #renewPortion(commands: readonly RenewCommand[]): Promise<readonly RenewReply[]> {
    const replies = await this.#renewOnce(commands);
    const again = commands.filter((_, i) => replies[i]?.kind === 'again');
    // A vote that a node has taken back counts from the next renewal on, which may follow at once.
    const second = again.length === 0 ? [] : await this.#renewOnce(again);
    return replies.map((reply, i) => {
      const last =
        reply.kind === 'again' ? second[again.indexOf(commands[i] as RenewCommand)] : reply;
      if (last?.kind !== 'again') return last as RenewReply;
      const reason = 'too few nodes have kept it, and some have taken it back';
      const { key } = commands[i] as RenewCommand;
      return {
        kind: 'unknown',
        cause: new LockStoreError(`Cannot renew '${key}': ${reason}`, key),
      };
    });
  }

  async #renewOnce(
    commands: readonly RenewCommand[],
  ): Promise<readonly (RenewReply | { readonly kind: 'again' })[]> {
    const { most, scripts } = this.#requests;
    const { needed, all } = this.#requests.nodes;
    const keys = commands.map(({ key }) => key);
    const args = commands.flatMap(({ token, leaseMs, used }) => [
      token,
      leaseMs,
      used === 0 ? 0 : lastAfter(used),
    ]);
    interface Answers {
      readonly kind: 'answers';
      readonly each: readonly (Prolonged | Unknown)[];
    }
    const countOf = (
      poll: QuorumPoll<QuorumNode, Answers>,
      i: number,
      kind: Prolonged['kind'],
    ): number => poll.count(({ each }) => each[i]?.kind === kind);
    // A node that has taken it back had lost it: with so many, others may have had the key meanwhile.
    const without = (poll: QuorumPoll<QuorumNode, Answers>, i: number): number =>
      countOf(poll, i, 'no') + countOf(poll, i, 'again');
    const action = keys.length === 1 ? undefined : `renew ${keys.length} leases`;
    const poll = await this.#requests.poll<Answers>(
      (node) =>
        this.#requests.run(
          node,
          scripts.renew,
          keys,
          args,
          (reply) => ({
            kind: 'answers',
            each: this.#requests.repliesOf(node).renewed(reply, keys.length),
          }),
          action,
        ),
      (answers) =>
        keys.every(
          (_, i) => countOf(answers, i, 'renewed') >= needed || without(answers, i) > most,
        ),
    );
    return commands.map(({ key, token, used }, i) => {
      const renewed = countOf(poll, i, 'renewed');
      const waiters = Math.max(0, ...poll.answers().map(({ each }) => waitersIn(each[i])));
      if (renewed >= needed)
        return { kind: 'renewed', waiters, blockEnd: used === 0 ? 0 : lastAfter(used) };
      if (without(poll, i) > most) {
        for (const node of all) void this.#votes.from(node, { key, token });
        return { kind: 'lost' };
      }
      if (renewed + countOf(poll, i, 'again') >= needed) return { kind: 'again' };
      const failures = poll.answers().flatMap(({ each }) => {
        const reply = each[i];
        return reply?.kind === 'unknown' ? [reply] : [];
      });
      return this.#requests.unknown('renew', key, poll, failures);
    });
  }
}

/** A renewal lets the holder use as many numbers as a vote. */
function lastAfter(used: number): number {
  return used + 1 + VOTED_NUMBERS;
}

function waitersIn(reply: Prolonged | Unknown | undefined): number {
  return reply === undefined || reply.kind === 'unknown' ? 0 : reply.waiters;
}
