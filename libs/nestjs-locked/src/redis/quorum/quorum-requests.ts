import { LockStoreError } from '../../core/lock.errors.js';
import type { Unknown } from '../../core/store/lock-store.js';
import type { Clock } from '../../core/time/clock.js';
import type { RedisCommand } from '../connection/traffic/redis-command.js';
import type { ReadReply } from '../read-outcome.js';
import type { RedisKeys } from '../scripts/redis-keys.js';
import type { RedisScript } from '../scripts/redis-script.js';
import type { QuorumNode } from './quorum-node.js';
import type { QuorumNodes } from './quorum-nodes.js';
import { pollNodes, type QuorumPoll } from './quorum-poll.js';
import { QuorumReplies } from './quorum-replies.js';
import type { QuorumScripts } from './quorum-scripts.js';

export interface QuorumRequestsParts {
  readonly nodes: QuorumNodes;
  readonly scripts: QuorumScripts;
  readonly keys: RedisKeys;
  readonly clock: Clock;
  /** How long the answers of a round are awaited. */
  readonly roundMs: number;
  /** How long a node that has started gives no vote. */
  readonly rejoinAfterMs: number;
}

export type Arguments = readonly (string | number)[];

/** Sends scripts to the nodes of a quorum, and says what too few answers mean. */
export class QuorumRequests {
  readonly nodes: QuorumNodes;
  readonly scripts: QuorumScripts;
  readonly clock: Clock;
  readonly #parts: QuorumRequestsParts;
  readonly #replies = new Map<QuorumNode, QuorumReplies>();

  constructor(parts: QuorumRequestsParts) {
    const { nodes, scripts, clock, rejoinAfterMs } = parts;
    this.nodes = nodes;
    this.scripts = scripts;
    this.clock = clock;
    this.#parts = parts;
    for (const node of nodes.all)
      this.#replies.set(node, new QuorumReplies(node.address, rejoinAfterMs));
  }

  /** How many nodes may have another opinion than the others. */
  get most(): number {
    return this.nodes.all.length - this.nodes.needed;
  }

  /** Asks all nodes. @returns what they have answered when it is decided, or when the time of a round is over */
  poll<Reply extends { readonly kind: string }>(
    ask: (node: QuorumNode) => Promise<Reply | Unknown>,
    isDecided: (poll: QuorumPoll<QuorumNode, Reply>) => boolean,
    mostMs = Infinity,
  ): Promise<QuorumPoll<QuorumNode, Reply>> {
    const { clock, nodes, roundMs } = this.#parts;
    const limitMs = Math.min(roundMs, mostMs);
    return pollNodes({ nodes: nodes.all, clock, limitMs, ask, isDecided });
  }

  /** Has one node run a script on these keys. */
  run<Reply>(
    node: QuorumNode,
    script: RedisScript,
    keys: readonly string[],
    args: Arguments | (() => Arguments),
    read: ReadReply<Reply>,
    action = `${script.name} '${keys[0]}'`,
  ): Promise<Reply | Unknown> {
    const redisKeys = keys.flatMap((key) => this.#parts.keys.of(key).slice(0, 3));
    const command: RedisCommand = {
      action,
      keys,
      send: (redis, whole) =>
        script.send(redis, redisKeys, typeof args === 'function' ? args() : args, whole),
    };
    return node.run(command, read);
  }

  /** Reads what the node answers. */
  repliesOf(node: QuorumNode): QuorumReplies {
    return this.#replies.get(node) as QuorumReplies;
  }

  /**
   * Too few nodes have answered the same.
   * @param failures those of a part of what was asked
   */
  unknown<Reply extends { readonly kind: string }>(
    action: string,
    key: string,
    poll: QuorumPoll<QuorumNode, Reply>,
    failures: readonly Unknown[] = [],
  ): Unknown {
    const { most } = this;
    const { all, needed } = this.nodes;
    const unknowns = [...poll.unknowns(), ...failures];
    const limitMs = Math.ceil(poll.limitMs);
    const reasons = all.flatMap((node) => {
      const reply = poll.replies.get(node);
      if (reply === undefined) return `${node.address}: no answer within ${limitMs} ms`;
      if (reply.kind !== 'unknown') return [];
      return `${node.address}: ${(reply as Unknown).cause.message.replace(/^Cannot [^:]*: /, '')}`;
    });
    reasons.push(...failures.map(({ cause }) => cause.message));
    const why = reasons.length === 0 ? '' : `: ${[...new Set(reasons)].join('; ')}`;
    const counted = `${needed} of the ${all.length} nodes of the quorum must agree, and too few have${why}`;
    const [first] = unknowns;
    const cause = new LockStoreError(`Cannot ${action} '${key}': ${counted}`, key, {
      cause: first?.cause,
    });
    const areMost = (is: (unknown: Unknown) => boolean | undefined): boolean =>
      unknowns.filter((unknown) => is(unknown) === true).length > most;
    return {
      kind: 'unknown',
      cause,
      isLasting: areMost(({ isLasting }) => isLasting),
      isRefused: areMost(({ isRefused }) => isRefused),
      neverRan:
        unknowns.length === all.length && unknowns.every(({ neverRan }) => neverRan === true),
    };
  }
}
