import type { LockStoreError } from '../../core/lock.errors.js';
import type { StoreMessage } from '../../core/store/lock-store.js';
import type { ServerInfo } from './server/server-info.js';
import type { CommandOutcome, RedisCommand } from './traffic/redis-command.js';

/** Sends commands to one server, or each to the server that it needs. */
export interface CommandRunner {
  /** @param read converts the outcome into the result; neither function ever throws or rejects */
  run<T>(command: RedisCommand, read: (outcome: CommandOutcome) => T): Promise<T>;
}

/**
 * Except for messages and `awaited`, nothing is reported before `open` has succeeded. `node` names the server affected,
 * like `LockServers.nodeOf`; `lost` and `back` may name slots of a cluster instead.
 */
export interface LockServersListener {
  message(message: StoreMessage): void;
  /** Something was published on a channel that is watched. */
  published?(channel: string): void;
  /** A server cannot be reached yet. Reported while it is being opened. */
  awaited(cause: LockStoreError): void;
  /** The inbox is subscribed again. */
  subscribed(node: string): void;
  /** Messages arrive again, or are no longer expected from there. */
  inboxBack(node: string): void;
  inboxLost(cause: LockStoreError, node: string): void;
  /** The inbox could not be restored at once, although commands are answered. */
  inboxFails(cause: LockStoreError, node: string): void;
  /** The server refuses something that the locks need and that it allowed at the start. */
  rightsLost(cause: LockStoreError, node: string): void;
  /** The server refuses nothing any more, or is no longer needed. */
  rightsBack(node: string): void;
  /** A dead idle connection was replaced. Nothing is lost unless that is reported too. */
  replaced(cause: LockStoreError, node: string): void;
  /** Commands are no longer answered. */
  lost(cause: LockStoreError, node: string): void;
  /** Commands are answered again, or go to another server. */
  back(node: string): void;
  /** Commands now use a new connection, possibly to another server. */
  connected(server: ServerInfo, node: string): void;
}

/** The servers that have the locks of a service: one, or the masters of a Redis Cluster. */
export interface LockServers extends CommandRunner {
  /** Where they are, for messages. */
  readonly address: string;
  /**
   * May be called again after it has failed and `close` was called.
   * @returns what each server says about itself
   * @throws LockConfigError if Redis refuses what is needed · LockStoreError if it does not answer within `limitMs`
   */
  open(listener: LockServersListener, limitMs: number): Promise<ReadonlyMap<string, ServerInfo>>;
  /** The server that has this key; '' if there is only one. */
  nodeOf(key: string): string;
  /** The names of all outages that can affect this key: of its server, and in a cluster of its slot. */
  outagesOf?(key: string): readonly string[];
  /** The slot of the key; keys of different slots cannot be in one command. Undefined if one server has all keys. */
  readonly slotOf?: (key: string) => number;
  /** Whether messages about this key can arrive. */
  listensFor(key: string): boolean;
  /**
   * Listens to a channel that others publish on, until `unwatch`, also on later connections; of a single server only.
   * @returns when it is listened to; at once if there is no connection now @throws LockStoreError
   */
  watch?(channel: string): Promise<void>;
  /** @throws LockStoreError if it is still subscribed to */
  unwatch?(channel: string): Promise<void>;
  /** Whether a watched channel is listened to now. */
  hears?(channel: string): boolean;
  /** Whether commands are sent at once, without waiting for a connection. */
  readonly isReady: boolean;
  /** All servers, for commands to each of them. */
  each(): Promise<readonly CommandRunner[]>;
  /** Waits until every command has ended, including follow-up commands. */
  idle(): Promise<void>;
  close(): void;
}
