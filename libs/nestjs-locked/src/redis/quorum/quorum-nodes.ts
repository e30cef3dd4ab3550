import { LockAbortedError, LockConfigError, LockStoreError } from '../../core/lock.errors.js';
import type { StoreListener } from '../../core/store/lock-store.js';
import { atMost } from '../../core/time/at-most.js';
import type { Clock } from '../../core/time/clock.js';
import type { RedisConnectionsOptions } from '../connection/redis-connections.options.js';
import { describedServer } from '../connection/server/described-server.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { ServerInfo } from '../connection/server/server-info.js';
import type { LockScripts } from '../scripts/lock-scripts.js';
import { QuorumNode } from './quorum-node.js';

/** The listener of the store, and what only the store does. */
export interface QuorumNodesListener extends StoreListener {
  /** A node can be used again, or is another server. */
  nodeReturned(node: QuorumNode): void;
}

/** How long the start waits for the other nodes when enough are open. */
const OTHERS_MS = 1_000;

/** The nodes of a quorum: which of them can be used, and whether these are enough. */
export class QuorumNodes {
  readonly all: readonly QuorumNode[];
  /** How many votes are needed: more than half. */
  readonly needed: number;
  readonly address: string;
  readonly #clock: Clock;
  #listener: QuorumNodesListener | undefined;
  /** Whether `open` has succeeded, so that changes are reported. */
  #isOpen = false;
  #isLost = false;
  #isDeaf = false;
  #evictionPolicy: string | undefined;
  /** The problems that were reported. */
  readonly #told = new Map<QuorumNode, string>();
  #abort: () => void = () => {};

  constructor(
    clients: readonly RedisClient[],
    options: RedisConnectionsOptions,
    scripts: LockScripts,
    noVoteMs: number,
  ) {
    this.#clock = options.clock;
    this.needed = Math.floor(clients.length / 2) + 1;
    this.address = `the quorum of ${clients.map(describedServer).join(', ')}`;
    this.all = clients.map(
      (client) =>
        new QuorumNode(client, options, scripts, noVoteMs, {
          message: (message) => this.#listener?.message(message),
          replaced: (cause) => this.#listener?.connectionReplaced?.(cause),
          inboxFails: (cause) => {
            if (this.#isOpen && this.#isDeaf) this.#listener?.inboxFails?.(cause);
          },
          changed: () => this.#changed(),
          inboxChanged: () => this.#inboxChanged(),
          awaited: (cause) => {
            if (!this.#isOpen) this.#listener?.storeAwaited?.(cause);
          },
          reconnected: (node, server) => this.#reconnected(node, server),
          refusal: (node) => this.#refusalOf(node),
        }),
    );
  }

  /** Whether messages can arrive from enough nodes that a release wakes a waiter. */
  get areListening(): boolean {
    return this.all.filter(({ connections }) => connections.listensFor()).length >= this.needed;
  }

  /**
   * Opens enough of them; the others join when they answer.
   * @throws LockConfigError if one of them refuses what is needed · LockStoreError if too few answer in time
   */
  async open(listener: QuorumNodesListener, limitMs: number): Promise<void> {
    this.#listener = listener;
    this.#isOpen = false;
    this.#isLost = false;
    this.#isDeaf = false;
    this.#told.clear();
    const { enough, all } = this.#opening();
    const outcome = await atMost(this.#clock, limitMs, enough);
    if (outcome === undefined) throw this.tooFew('Cannot open the locks', limitMs);
    // The others usually answer in the same moment, and may be refused.
    const last = outcome === true ? await atMost(this.#clock, OTHERS_MS, all) : outcome;
    if (last instanceof Error) throw last;
    this.#isOpen = true;
    this.#changed();
    this.#inboxChanged();
  }

  /** Each resolves when so many are open, or with the first refusal that no retry ends. */
  #opening(): { readonly enough: Promise<true | Error>; readonly all: Promise<true | Error> } {
    const ends: ((outcome: true | Error) => void)[] = [];
    const promised = (): Promise<true | Error> => new Promise((resolve) => ends.push(resolve));
    const promises = { enough: promised(), all: promised() };
    const refuse = (error: Error): void => {
      for (const end of ends) end(error);
    };
    const [haveEnough, haveAll] = ends;
    this.#abort = () =>
      refuse(new LockAbortedError('Cannot open the locks: the application is shutting down'));
    let opened = 0;
    for (const node of this.all) {
      const refused = (error: unknown): void => {
        if (error instanceof LockConfigError) refuse(this.#refusedBy(node, error));
      };
      void node.open(refused).then(() => {
        const refusal = this.#refusalOf(node);
        if (refusal !== undefined) return refuse(refusal);
        if (++opened === this.needed) haveEnough?.(true);
        if (opened === this.all.length) haveAll?.(true);
      });
    }
    return promises;
  }

  /** Which node it is, in the words of the configuration. */
  #nth(node: QuorumNode): string {
    return `quorum[${this.all.indexOf(node)}] (${node.address})`;
  }

  #refusedBy(node: QuorumNode, error: LockConfigError): LockConfigError {
    if (error.message.includes(node.address)) return error;
    const message = `${this.#nth(node)}: ${error.message}`;
    return new LockConfigError(message, undefined, { cause: error.cause });
  }

  #refusalOf(node: QuorumNode): LockConfigError | undefined {
    const { runId, address } = node;
    if (runId === undefined) {
      return new LockConfigError(
        `Invalid option connection: ${this.#nth(node)} does not tell its run_id, so that it cannot be told from the others; allow its user INFO (+info), and put nothing in front of it that hides it`,
      );
    }
    const twin = this.all.find((other) => other !== node && other.runId === runId);
    if (twin === undefined) return undefined;
    const where = twin.address === address ? '' : ', although their addresses differ';
    return new LockConfigError(
      `Invalid option connection: ${this.#nth(twin)} and ${this.#nth(node)} are one server (run_id ${runId})${where}: its votes would count twice; name independent servers`,
    );
  }

  /** @param what could not be done */
  tooFew(what: string, limitMs?: number): LockStoreError {
    const within = limitMs === undefined ? '' : ` within ${limitMs} ms`;
    const away = this.all.filter(({ problem }) => problem !== undefined);
    const usable = this.all.length - away.length;
    const why = away.map(({ address, problem }) => `; ${address}: ${problem?.message}`).join('');
    return new LockStoreError(
      `${what}: only ${usable} of the ${this.all.length} nodes of the quorum can be used${within}, and ${this.needed} are needed${why}`,
      undefined,
      { cause: away[0]?.problem },
    );
  }

  #reconnected(node: QuorumNode, { evictionPolicy }: ServerInfo): void {
    if (evictionPolicy !== undefined && evictionPolicy !== this.#evictionPolicy) {
      this.#evictionPolicy = evictionPolicy;
      this.#listener?.mayEvict(evictionPolicy);
    }
    if (!this.#isOpen) return;
    this.#listener?.nodeReturned(node);
    this.#listener?.reconnected();
  }

  #changed(): void {
    const listener = this.#listener;
    if (!this.#isOpen || listener === undefined) return;
    for (const node of this.all) {
      const { problem, address } = node;
      if (problem?.message === this.#told.get(node)) continue;
      if (problem === undefined) {
        this.#told.delete(node);
        listener.nodeBack?.(address);
        listener.nodeReturned(node);
      } else {
        this.#told.set(node, problem.message);
        listener.nodeLost?.(problem, address);
      }
    }
    const usable = this.all.filter(({ problem }) => problem === undefined).length;
    if (usable < this.needed) {
      this.#isLost = true;
      listener.storeLost(this.tooFew('Locks cannot be taken'));
    } else if (this.#isLost) {
      this.#isLost = false;
      listener.storeBack();
    }
  }

  #inboxChanged(): void {
    const listener = this.#listener;
    if (!this.#isOpen || listener === undefined || this.#isDeaf !== this.areListening) return;
    this.#isDeaf = !this.areListening;
    if (this.#isDeaf) return listener.inboxLost(undefined, this.#deafness);
    listener.inboxBack?.();
    listener.reconnected(); // messages may have been lost
  }

  get #deafness(): LockStoreError {
    const deaf = this.all.filter(({ connections }) => !connections.listensFor());
    const addresses = deaf.map(({ address }) => address).join(', ');
    return new LockStoreError(`the subscription is lost at ${addresses}`);
  }

  close(): void {
    this.#isOpen = false;
    this.#abort();
    for (const node of this.all) node.close();
    this.#listener = undefined;
  }
}
