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

/** The pause before a command that cannot be executed yet is retried; half of it is random. */
const PAUSE_MS = 100;

/** How many redirections a command follows without a pause. */
const MOST_AT_ONCE = 3;

/** A command that was sent to the wrong node, or could not be executed there yet. */
interface Detour {
  readonly command: RedisCommand;
  readonly slot: number;
  /** How long the command may take, from the first sending. */
  readonly limit: AwakeLimit;
  /** The form to send: the command, or its short form while its keys are moving. */
  form: RedisCommand;
  /** How often it was redirected. */
  sentOn: number;
  /** The node to which it was last sent. */
  from: ClusterNode | undefined;
}

interface Next {
  readonly node: ClusterNode;
  readonly command: RedisCommand;
}

/**
 * Sends each command to the node that has its key. A node that is not, or not yet, the right one redirects the command
 * without executing it. The command is then sent on, within its own time limit.
 *
 * While a command is on such a detour, later commands for the same key wait for it, so that they run in the order of
 * the calls. Renewals do not wait, because they can run when nothing else can.
 */
export class ClusterCommands implements CommandRunner {
  readonly #nodes: ClusterNodes;
  readonly #clock: Clock;
  readonly #timeLimitMs: number;
  /** The last command on a detour of each key. */
  readonly #detours = new Map<string, Promise<unknown>>();
  #running = 0;
  #onIdle: (() => void)[] = [];
  readonly #onFailure: (command: RedisCommand, failure: CommandFailure) => void;

  /** @param onFailure called for every failed command */
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

  /** Waits until every command has ended, including follow-up commands. */
  async idle(): Promise<void> {
    while (this.#running > 0) {
      await new Promise<void>((resolve) => this.#onIdle.push(resolve));
      await immediate();
    }
  }

  /**
   * Like `run`, but closing does not wait for it, and a failure is not reported. The first sending is synchronous, to
   * keep the order of the calls.
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

  /** Follows a command after earlier detours for the same key. */
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
   * Sends a command on until it is executed or its time is over.
   *
   * After a sending that may have run, the outcome says so whatever a later node answers: a refusal by one node proves
   * nothing about another whose answer was lost.
   * @param failure the answer of the first node; undefined if the command was not sent yet
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
      if (this.#clock.now() >= limit.endsAt) return { ...last, neverRan: !mayHaveRun }; // with the reason of the delay
      last = outcome;
      if (!this.#goesOn(outcome, next.node, command)) return { ...outcome, neverRan: !mayHaveRun };
    }
  }

  /**
   * What to send next, and where; undefined if no node is known. Waits first if no attempt can succeed now.
   *
   * - `MOVED`: the slot has another permanent owner. It is remembered, and the command follows at once. Two nodes that
   *   disagree can name each other for ever, so later redirections are followed after a pause.
   * - `ASK`: only this key has moved so far. The command follows once, and the owner of the slot stays the same.
   * - `TRYAGAIN`: some keys of the command have moved and others have not. It is retried until all are on one node.
   *   After `whileMoving.afterMs`, a command with a short form is sent in that, which needs only the lock key.
   * - `CLUSTERDOWN`: no node may serve the slot. The view of the cluster is refreshed, because a failover may have
   *   ended.
   */
  async #next(detour: Detour, failure: CommandFailure): Promise<Next | undefined> {
    const { command, slot, limit } = detour;
    const redirection = redirectionOf(failure);
    const from = detour.from as ClusterNode; // set, because a node has redirected the command
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
      case undefined: // its node is gone, or none is known
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

  /** Whether the failure only means that the command belongs elsewhere. */
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

  /** Waits within the limit. Time in which this process was blocked at the end of the wait does not count. */
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
      redis.asking().catch(() => {}); // the command itself fails too
      return command.send(redis, whole);
    },
  };
}

function notSent({ action }: RedisCommand, reason: string): CommandFailure {
  const cause = new LockStoreError(`Cannot ${action}: ${reason}`);
  return { kind: 'failed', cause, neverRan: true };
}
