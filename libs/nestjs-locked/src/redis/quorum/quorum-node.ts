import type { LockConfigError } from '../../core/lock.errors.js';
import { LockStoreError } from '../../core/lock.errors.js';
import type { Unknown } from '../../core/store/lock-store.js';
import { atMost } from '../../core/time/at-most.js';
import type { LockServersListener } from '../connection/lock-servers.js';
import { RedisConnections } from '../connection/redis-connections.js';
import type { RedisConnectionsOptions } from '../connection/redis-connections.options.js';
import { describedServer } from '../connection/server/described-server.js';
import { reasonOf } from '../connection/server/reason-of.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { ServerInfo } from '../connection/server/server-info.js';
import type { RedisCommand } from '../connection/traffic/redis-command.js';
import { readOutcome, type ReadReply } from '../read-outcome.js';
import { RedisLockInspector } from '../redis-lock-inspector.js';
import type { LockScripts } from '../scripts/lock-scripts.js';

/** The pause before a node that refused us is tried again. */
const REFUSED_MS = 1_000;

export interface QuorumNodeListener extends Pick<
  LockServersListener,
  'message' | 'replaced' | 'inboxFails'
> {
  /** It has become usable or useless, or has another problem. */
  changed(node: QuorumNode): void;
  /** The inbox is subscribed again, or no longer. */
  inboxChanged(node: QuorumNode): void;
  /** It cannot be reached yet, while the locks are being opened. */
  awaited(cause: LockStoreError): void;
  /** Messages may have been lost, or the server may be another one. */
  reconnected(node: QuorumNode, server: ServerInfo): void;
  /** Why this server cannot be a node beside the others, if so. */
  refusal(node: QuorumNode): LockConfigError | undefined;
}

/** What keeps a node from being used. */
type Problem = 'closed' | 'away' | 'refused' | 'unsuitable';

/** One of the independent masters of a quorum, and our two connections to it. */
export class QuorumNode {
  readonly address: string;
  readonly connections: RedisConnections;
  readonly inspector: RedisLockInspector;
  readonly #options: RedisConnectionsOptions;
  readonly #noVoteMs: number;
  readonly #listener: QuorumNodeListener;
  readonly #problems = new Map<Problem, LockStoreError>();
  #runId: string | undefined;
  /** Until when it gives no vote, because another server has taken its place. */
  #noVoteUntil = -Infinity;
  /** Until when it may have forgotten votes, because it has not run for long. */
  #youngUntil = -Infinity;
  #isClosed = true;
  #endPause: () => void = () => {};

  constructor(
    client: RedisClient,
    options: RedisConnectionsOptions,
    scripts: LockScripts,
    noVoteMs: number,
    listener: QuorumNodeListener,
  ) {
    this.address = describedServer(client);
    this.#options = options;
    this.#noVoteMs = noVoteMs;
    this.#listener = listener;
    this.connections = new RedisConnections(client, options);
    this.inspector = new RedisLockInspector({
      servers: this.connections,
      clock: options.clock,
      keys: options.keys,
      scripts,
      processId: options.processId,
      connectionPrefix: client.options.keyPrefix ?? '',
    });
  }

  get runId(): string | undefined {
    return this.#runId;
  }

  /** Why it cannot be used; undefined if it can. */
  get problem(): LockStoreError | undefined {
    const [problem] = this.#problems.values();
    return problem;
  }

  /** Whether a vote counts that arrives now. */
  get mayVote(): boolean {
    return this.#problems.get('unsuitable') === undefined && !this.#isNewcomer;
  }

  /** Whether it may have forgotten who has a key. Its scripts look themselves before they vote. */
  get mayHaveForgotten(): boolean {
    return this.#isNewcomer || this.#youngUntil > this.#options.clock.now();
  }

  get #isNewcomer(): boolean {
    return this.#noVoteUntil > this.#options.clock.now();
  }

  /** Why its votes do not count now. */
  get noVote(): LockStoreError {
    return (
      this.problem ??
      new LockStoreError('another server has taken its place, which may not know the locks yet')
    );
  }

  // ---- opening ----------------------------------------------------------------------------------------------

  /**
   * Opens it, however long that takes.
   * @param refused called with each refusal @returns when it is open, or closed
   */
  async open(refused: (error: unknown) => void): Promise<void> {
    this.#isClosed = false;
    this.#problems.clear();
    this.#problems.set('closed', new LockStoreError('it has not answered yet'));
    while (!this.#isClosed) {
      try {
        const servers = await this.connections.open(this.#events, Infinity);
        const [server] = servers.values();
        await this.inspector.enter();
        this.#found(server as ServerInfo);
        this.#solved('closed');
        this.#listener.inboxChanged(this);
        this.#listener.reconnected(this, server as ServerInfo);
        return;
      } catch (error) {
        if (this.#isClosed) return;
        this.connections.close();
        this.#has('closed', error);
        refused(error);
        const ended = new Promise<void>((resolve) => (this.#endPause = resolve));
        await atMost(this.#options.clock, REFUSED_MS, ended);
      }
    }
  }

  readonly #events: LockServersListener = {
    message: (message) => this.#listener.message(message),
    awaited: (cause) => {
      if (this.#isClosed || !this.#problems.has('closed')) return;
      this.#has('closed', cause);
      this.#listener.awaited(cause);
    },
    subscribed: () => {
      this.#listener.inboxChanged(this);
    },
    inboxBack: () => this.#listener.inboxChanged(this),
    inboxLost: () => this.#listener.inboxChanged(this),
    inboxFails: (cause, node) => this.#listener.inboxFails(cause, node),
    rightsLost: (cause) => this.#has('refused', cause),
    rightsBack: () => this.#solved('refused'),
    replaced: (cause, node) => this.#listener.replaced(cause, node),
    lost: (cause) => this.#has('away', cause),
    back: () => this.#solved('away'),
    connected: (server) => {
      this.#found(server);
      this.#listener.reconnected(this, server);
      this.inspector.present().catch(() => {}); // only people read it
    },
  };

  /**
   * Called when a connection is made. A server that has taken the place of another, as in a failover, may lack the last
   * votes, and its age does not tell.
   */
  #found({ runId, upMs }: ServerInfo): void {
    const now = this.#options.clock.now();
    const isOther = this.#runId !== undefined && runId !== this.#runId;
    if (isOther) this.#noVoteUntil = now + this.#noVoteMs;
    this.#youngUntil = this.#noVoteMs === 0 ? -Infinity : now + this.#noVoteMs + 1_000 - upMs;
    this.#runId = runId;
    const refusal = this.#listener.refusal(this);
    if (refusal === undefined) this.#solved('unsuitable');
    else this.#has('unsuitable', refusal);
  }

  #has(problem: Problem, error: unknown): void {
    const cause = error instanceof LockStoreError ? error : new LockStoreError(reasonOf(error));
    this.#problems.set(problem, cause);
    this.#listener.changed(this);
  }

  #solved(problem: Problem): void {
    if (this.#problems.delete(problem)) this.#listener.changed(this);
  }

  close(): void {
    this.#isClosed = true;
    this.connections.close();
    this.#endPause();
  }

  // ---- commands ---------------------------------------------------------------------------------------------

  run<Reply>(command: RedisCommand, read: ReadReply<Reply>): Promise<Reply | Unknown> {
    return this.connections.run(command, (outcome) => readOutcome(outcome, read));
  }

  /** Waits for the commands in flight, unless it does not answer. */
  async idle(): Promise<void> {
    if (this.connections.commands.isAnswering) await this.connections.idle();
  }
}
