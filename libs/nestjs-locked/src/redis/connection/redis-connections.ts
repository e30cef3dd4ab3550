import type { LockStoreError } from '../../core/lock.errors.js';
import { unreachable } from '../../core/runtime/unreachable.js';
import type { InboxMessage } from '../../core/store/lock-store.js';
import type { Clock } from '../../core/time/clock.js';
import type { RedisKeys } from '../scripts/redis-keys.js';
import type { RedisScript } from '../scripts/redis-script.js';
import { CommandConnection } from './command-connection.js';
import { parseInboxMessage } from './inbox-message.js';
import { InboxProof, type InboxProofOutcome } from './inbox-proof.js';
import type { RedisClient } from './redis-client.js';
import { RedisHandshake } from './redis-handshake.js';
import { RedisInbox } from './redis-inbox.js';
import type { ServerInfo } from './server-info.js';

export interface RedisConnectionsOptions {
  /** The client whose options both connections are made from. */
  readonly client: RedisClient;
  readonly clock: Clock;
  readonly keys: RedisKeys;
  readonly processId: string;
  readonly scripts: readonly RedisScript[];
  /** How long a command may take. */
  readonly timeLimitMs: number;
  /** How often the inbox is checked. */
  readonly pingEveryMs: number;
}

/** Apart from messages, nothing is reported before `open` has succeeded. */
export interface RedisConnectionsListener {
  message(message: InboxMessage): void;
  /** The inbox is subscribed again. */
  subscribed(): void;
  inboxLost(): void;
  /** Commands are not answered any more. */
  lost(cause: LockStoreError): void;
  /** Commands are answered again. */
  back(): void;
  /** Commands now use a new connection, perhaps to another server. */
  connected(server: ServerInfo): void;
}

/** When Redis could not say whether messages arrive, it is asked again after this time. */
const PROOF_RETRY_MS = 1_000;

const DIVIDED = 'what is published on one connection does not arrive on another one';

/**
 * The two connections of a lock service, both its own: one for commands, one for the inbox. Whenever one of them is
 * new, it is proved that both lead to the same server. They may not, if an address has moved and only one of them has
 * followed. Then the older one is replaced, because waiters whose inbox is elsewhere would be passed over.
 */
export class RedisConnections {
  readonly commands: CommandConnection;
  readonly #options: RedisConnectionsOptions;
  readonly #proof: InboxProof;
  #handshake: RedisHandshake | undefined;
  #inbox: RedisInbox | undefined;
  #listener: RedisConnectionsListener | undefined;
  #server: ServerInfo | undefined;
  #cancelProof: () => void = () => {};

  constructor(options: RedisConnectionsOptions) {
    const { client, clock, keys, processId, scripts, timeLimitMs } = options;
    const name = client.options.connectionName ?? `${keys.prefix}commands:${processId}`;
    const commands = new CommandConnection({ name, clock, timeLimitMs, scripts });
    this.#options = options;
    this.commands = commands;
    this.#proof = new InboxProof({ commands, clock, keys, processId, timeLimitMs });
  }

  get inboxReady(): boolean {
    return this.#inbox?.ready ?? false;
  }

  /**
   * May be called again after it has failed and `close` was called.
   * @throws LockConfigError if Redis refuses what is needed · LockStoreError if it does not answer within `limitMs`
   */
  async open(listener: RedisConnectionsListener, limitMs: number): Promise<ServerInfo> {
    const { client, clock, keys } = this.#options;
    const handshake = new RedisHandshake({ client, clock, keys, limitMs });
    this.#handshake = handshake;
    this.#openCommands(handshake);
    this.#openInbox(handshake, listener);
    const info = await handshake.step('connect', handshake.isConnected);
    await handshake.step('subscribe to the inbox', handshake.isSubscribed);
    await handshake.step('receive a message in the inbox', handshake.isProved);
    this.#listener = listener;
    return this.#server ?? info;
  }

  close(): void {
    this.#handshake?.closed();
    this.#cancelProof();
    this.#proof.close();
    this.commands.close();
    this.#inbox?.close();
    this.#inbox = undefined;
  }

  #openCommands(handshake: RedisHandshake): void {
    this.commands.open(this.#options.client, {
      admitted: (server) => {
        this.#server = server;
        handshake.connected(server);
        if (this.#inbox !== undefined) this.#prove(this.#inbox);
        this.#listener?.connected(server);
      },
      failed: (error) => handshake.failed(error),
      lost: (cause) => this.#listener?.lost(cause),
      back: () => this.#listener?.back(),
    });
  }

  #openInbox(handshake: RedisHandshake, listener: RedisConnectionsListener): void {
    const { client, clock, keys, processId, timeLimitMs, pingEveryMs } = this.#options;
    const channel = keys.inboxPrefix + processId;
    this.#inbox = new RedisInbox(
      client,
      { channel, clock, timeLimitMs, pingEveryMs },
      {
        subscribed: () => {
          handshake.subscribed();
          this.#prove(this.commands);
          this.#listener?.subscribed();
        },
        lost: () => this.#listener?.inboxLost(),
        failed: (error) => handshake.failed(error),
        message: (text) => {
          const message = parseInboxMessage(text);
          if (message?.kind === 'probe') this.#proof.arrived(message.id);
          else if (message !== undefined) listener.message(message);
        },
      },
    );
  }

  /** @param older the connection that is replaced if it leads to another server than the new one */
  #prove(older: CommandConnection | RedisInbox): void {
    const { commands } = this;
    const inbox = this.#inbox;
    if (inbox === undefined || !inbox.ready || !commands.isReady) return; // the proof is made once both are there
    const [commandsBefore, inboxBefore] = [commands.connections, inbox.connections];
    const decide = (outcome: InboxProofOutcome): void => {
      if (commands.connections !== commandsBefore || inbox.connections !== inboxBefore) return;
      switch (outcome.kind) {
        case 'arrived':
          commands.proved();
          inbox.proved();
          return this.#handshake?.proved();
        case 'missing': {
          const divided = new Error(DIVIDED);
          this.#handshake?.failed(divided);
          return older.reconnect(divided);
        }
        case 'failed':
          this.#handshake?.failed(outcome.cause.cause ?? outcome.cause);
          return this.#proveLater(older);
        default:
          return unreachable(outcome);
      }
    };
    void this.#proof.run().then(decide);
  }

  #proveLater(older: CommandConnection | RedisInbox): void {
    this.#cancelProof();
    this.#cancelProof = this.#options.clock.after(PROOF_RETRY_MS, () => this.#prove(older));
  }
}
