import { setImmediate as immediate } from 'node:timers/promises';
import { LockStoreError } from '../../core/lock.errors.js';
import { unreachable } from '../../core/runtime/unreachable.js';
import { AwakeLimit, stoodStillMs } from '../../core/time/after-silence.js';
import type { Clock } from '../../core/time/clock.js';
import type { CommandRunner } from '../connection/lock-servers.js';
import type {
  CommandFailure,
  CommandOutcome,
  RedisCommand,
} from '../connection/traffic/redis-command.js';
import type { ClusterNode } from './cluster-node.js';
import type { ClusterNodes } from './cluster-nodes.js';
import { redirectionOf } from './redirection.js';

/** How long to wait before a command is tried again that cannot be carried out yet; half of it is random. */
const PAUSE_MS = 100;

/** How many redirections a command follows without a pause. */
const MOST_AT_ONCE = 3;

/** A command that was sent to the wrong node, or could not be carried out there yet. */
interface Detour {
  readonly command: RedisCommand;
  readonly slot: number;
  /** How long the command may take. It begins with the first sending. */
  readonly limit: AwakeLimit;
  /** What is sent: the command, or what can be done in its place while its keys are moving. */
  form: RedisCommand;
  /** How often a node has said that it belongs elsewhere. */
  sentOn: number;
  /** The node to which it was sent last. */
  from: ClusterNode | undefined;
}

interface Next {
  readonly node: ClusterNode;
  readonly command: RedisCommand;
}

/**
 * Sends each command to the node that has its key. A node that is not the right one, or not yet, says so and has done
 * nothing. The command is then sent on, within its own time limit.
 *
 * While a command is on such a detour, later commands for the same key wait for it, so that they are carried out in the
 * order of the calls. Renewals do not wait: they can be carried out when nothing else can.
 */
export class ClusterCommands implements CommandRunner {
  readonly #nodes: ClusterNodes;
  readonly #clock: Clock;
  readonly #timeLimitMs: number;
  /** For each key the last command on a detour. */
  readonly #detours = new Map<string, Promise<unknown>>();
  #running = 0;
  #onIdle: (() => void)[] = [];
  readonly #onFailure: (command: RedisCommand, failure: CommandFailure) => void;

  /** @param onFailure is told of every command that has failed */
  constructor(
    nodes: ClusterNodes,
    clock: Clock,
    timeLimitMs: number,
    onFailure: (command: RedisCommand, failure: CommandFailure) => void = () => {},
  ) {
    this.#onFailure = onFailure;
    this.#nodes = nodes;
    this.#clock = clock;
    this.#timeLimitMs = timeLimitMs;
  }

  async run<T>(command: RedisCommand, read: (outcome: CommandOutcome) => T): Promise<T> {
    this.#running++;
    const outcome = await this.attempt(command);
    this.#running--;
    if (outcome.kind === 'failed' && !this.#nodes.isClosed) this.#onFailure(command, outcome);
    if (this.#running === 0) for (const tell of this.#onIdle.splice(0)) tell();
    return read(outcome);
  }

  /** Waits until every command has ended, including those that the answers give rise to. */
  async idle(): Promise<void> {
    while (this.#running > 0) {
      await new Promise<void>((resolve) => this.#onIdle.push(resolve));
      await immediate();
    }
  }

  /**
   * What `run` does, but nobody waits for it when the locks are closed, and nobody is told if it fails. The first
   * sending is synchronous: so the order of the calls is kept.
   */
  async attempt(command: RedisCommand): Promise<CommandOutcome> {
    const slot = this.#nodes.slotOf(command.redisKey ?? '');
    const limit = new AwakeLimit(this.#timeLimitMs, this.#clock.now());
    const node = this.#mustWait(command) ? undefined : this.#nodes.ofSlot(slot);
    const detour = (): Detour => ({
      ...{ command, slot, limit, from: node },
      ...{ form: command, sentOn: 0 },
    });
    if (node === undefined) return this.#inTurn(detour(), undefined);
    const outcome = await node.connections.run(command, unchanged);
    const isOver = outcome.kind === 'answered' || !this.#goesOn(outcome, node, command);
    return isOver ? outcome : this.#inTurn(detour(), outcome);
  }

  // ---- detours ----------------------------------------------------------------------------------------------

  #mustWait({ keys, whileMoving }: RedisCommand): boolean {
    return whileMoving?.afterMs !== 0 && keys.some((key) => this.#detours.has(key));
  }

  /** Follows a command after those for the same key that are on a detour already. */
  async #inTurn(detour: Detour, failure: CommandFailure | undefined): Promise<CommandOutcome> {
    const { keys, whileMoving } = detour.command;
    if (whileMoving?.afterMs === 0) return this.#follow(detour, failure);
    const ahead = Promise.all(keys.map(async (key) => this.#detours.get(key)));
    const followed = ahead.then(() => this.#follow(detour, failure));
    for (const key of keys) this.#detours.set(key, followed);
    const outcome = await followed;
    for (const key of keys) if (this.#detours.get(key) === followed) this.#detours.delete(key);
    return outcome;
  }

  /**
   * Sends a command on until it is carried out, or its time is over.
   *
   * Once a sending may have run, the outcome says so for good, whatever a later node answers: a refusal by one node
   * proves nothing about another one whose answer was lost.
   * @param failure what the first node said; undefined if the command has not been sent yet
   */
  async #follow(detour: Detour, failure: CommandFailure | undefined): Promise<CommandOutcome> {
    const { command, slot, limit } = detour;
    let mayHaveRun = failure?.neverRan === false;
    const reason =
      this.#nodes.ofSlot(slot) === undefined
        ? `no master of the cluster is known for slot ${slot}`
        : 'an earlier command for its key was in flight for too long';
    let last = failure ?? notSent(command, reason);
    for (;;) {
      const next = await this.#next(detour, last);
      if (this.#nodes.isClosed || this.#clock.now() >= limit.endsAt)
        return { ...last, neverRan: !mayHaveRun };
      if (next === undefined) continue;
      detour.from = next.node;
      const outcome = await next.node.connections.run(next.command, unchanged, limit.endsAt);
      if (outcome.kind === 'answered')
        return { ...outcome, mayHaveRunBefore: outcome.mayHaveRunBefore || mayHaveRun };
      mayHaveRun ||= !outcome.neverRan;
      if (this.#clock.now() >= limit.endsAt) return { ...last, neverRan: !mayHaveRun }; // which says what has held it up
      last = outcome;
      if (!this.#goesOn(outcome, next.node, command)) return { ...outcome, neverRan: !mayHaveRun };
    }
  }

  /**
   * What to send next, and where; undefined if no node is known. It waits if nothing has a chance right now.
   *
   * - `MOVED`: the slot has another owner for good. It is remembered, and the command follows at once. Two nodes that
   *   disagree can name each other for ever, so that after a few redirections there is a pause between them.
   * - `ASK`: only this key has moved so far. The command follows once, and the owner of the slot stays what it was.
   * - `TRYAGAIN`: some keys of the command have moved and others have not. It is tried again until all are on one node.
   *   After `whileMoving.afterMs`, a command that has such a form is sent in the one that needs the lock key alone.
   * - `CLUSTERDOWN`: nobody may serve the slot. The cluster is looked at, because a failover may have ended meanwhile.
   */
  async #next(detour: Detour, failure: CommandFailure): Promise<Next | undefined> {
    const { command, slot, limit } = detour;
    const redirection = redirectionOf(failure);
    const from = detour.from as ClusterNode; // somebody has redirected the command
    switch (redirection?.kind) {
      case 'moved':
        this.#nodes.moved(redirection.slot, redirection.address, from);
        if (++detour.sentOn > MOST_AT_ONCE) await this.#pause(limit);
        break;
      case 'ask':
        return {
          node: this.#nodes.at(redirection.address, from),
          command: afterAsking(detour.form),
        };
      case 'again': {
        const { form } = detour;
        const { whileMoving } = command;
        const isTime = this.#clock.now() - limit.since >= (whileMoving?.afterMs ?? Infinity);
        if (whileMoving === undefined || !isTime || form !== command) await this.#pause(limit);
        else detour.form = { ...command, send: whileMoving.send.bind(whileMoving) };
        break;
      }
      case 'down':
        this.#nodes.lookSoon();
        await this.#pause(limit);
        break;
      case undefined: // its node has gone, or none is known
        if (this.#nodes.ofSlot(slot) !== undefined) break;
        this.#nodes.lookSoon();
        await this.#wait(limit, Infinity, (ms) => this.#nodes.changed(ms));
        break;
      default:
        return unreachable(redirection);
    }
    const node = this.#nodes.ofSlot(slot);
    return node === undefined ? undefined : { node, command: detour.form };
  }

  /** Whether the failure only means that the command must go elsewhere. */
  #goesOn(failure: CommandFailure, node: ClusterNode, { isRepeatable }: RedisCommand): boolean {
    const isElsewhere =
      redirectionOf(failure) !== undefined || (node.isGone && !this.#nodes.isClosed);
    return isElsewhere && (failure.neverRan || isRepeatable !== false);
  }

  #pause(limit: AwakeLimit): Promise<void> {
    const pauseMs = PAUSE_MS * (0.5 + Math.random() / 2);
    const wait = (ms: number): Promise<void> =>
      new Promise((resolve) => void this.#clock.after(ms, resolve));
    return this.#wait(limit, pauseMs, wait);
  }

  /** Waits within the limit. If this process stood still when the wait was over, that does not count. */
  async #wait(
    limit: AwakeLimit,
    longestMs: number,
    wait: (ms: number) => Promise<void>,
  ): Promise<void> {
    const startedAt = this.#clock.now();
    const endsAt = Math.min(startedAt + longestMs, limit.endsAt);
    await wait(Math.max(0, endsAt - startedAt));
    const now = this.#clock.now();
    const stoodStill = stoodStillMs(endsAt, now);
    if (stoodStill > 0) limit.stoodStill(stoodStill, now);
  }
}

const unchanged = (outcome: CommandOutcome): CommandOutcome => outcome;

/** A node importing a slot needs ASKING first. */
function afterAsking(command: RedisCommand): RedisCommand {
  return {
    ...command,
    send: (redis, whole) => {
      redis.asking().catch(() => {}); // the command itself fails then, too
      return command.send(redis, whole);
    },
  };
}

function notSent({ action }: RedisCommand, reason: string): CommandFailure {
  const cause = new LockStoreError(`Cannot ${action}: ${reason}`);
  return { kind: 'failed', cause, neverRan: true };
}
