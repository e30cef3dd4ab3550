import type { LockStoreError } from '../../core/lock.errors.js';
import type { InboxMessage } from '../../core/store/lock-store.js';
import type { ServerInfo } from './server/server-info.js';
import type { CommandOutcome, RedisCommand } from './traffic/redis-command.js';

/** Sends commands to one server, or to the one that each command needs. */
export interface CommandRunner {
  /** @param read makes the result of what became of the command; neither of them ever throws or rejects */
  run<T>(command: RedisCommand, read: (outcome: CommandOutcome) => T): Promise<T>;
}

/**
 * Apart from messages, nothing is reported before `open` has succeeded. `node` names the server that it concerns, as
 * `LockServers.nodeOf` does; `lost` and `back` may name slots of a cluster instead.
 */
export interface LockServersListener {
  message(message: InboxMessage): void;
  /** The inbox is subscribed again. */
  subscribed(node: string): void;
  /** Messages arrive again, or none are expected from there any more. */
  inboxBack(node: string): void;
  inboxLost(cause: LockStoreError, node: string): void;
  /** It could not be restored at once, although commands are answered. */
  inboxFails(cause: LockStoreError, node: string): void;
  /** The server refuses us something that we need, and did not at the start. */
  rightsLost(cause: LockStoreError, node: string): void;
  /** It refuses nothing any more, or nothing is needed from there. */
  rightsBack(node: string): void;
  /** A connection was idle and dead, and is replaced. Nothing is lost unless that is told as well. */
  replaced(cause: LockStoreError, node: string): void;
  /** Commands are not answered any more. */
  lost(cause: LockStoreError, node: string): void;
  /** Commands are answered again, or go to another server. */
  back(node: string): void;
  /** Commands now use a new connection, perhaps to another server. */
  connected(server: ServerInfo, node: string): void;
}

/** The servers that have the locks of a service: one, or the masters of a Redis Cluster. */
export interface LockServers extends CommandRunner {
  /**
   * May be called again after it has failed and `close` was called.
   * @returns what each server says about itself
   * @throws LockConfigError if Redis refuses what is needed · LockStoreError if it does not answer within `limitMs`
   */
  open(listener: LockServersListener, limitMs: number): Promise<ReadonlyMap<string, ServerInfo>>;
  /** Which server has this key; '' if there is only one. */
  nodeOf(key: string): string;
  /** The names of all outages that can concern this key: of its server, and in a cluster of its slot. */
  outagesOf?(key: string): readonly string[];
  /** The slot of the key; keys of different slots cannot be in one command. Undefined: one server has all keys. */
  readonly slotOf?: (key: string) => number;
  /** Whether messages about this key can arrive. */
  listensFor(key: string): boolean;
  /** Whether commands are sent at once: none of them would wait for a connection. */
  readonly isReady: boolean;
  /** Every server, for what concerns all of them. */
  each(): Promise<readonly CommandRunner[]>;
  /** Waits until every command has ended, including those that the answers give rise to. */
  idle(): Promise<void>;
  close(): void;
}
