import type { CommandFailure } from '../connection/traffic/redis-command.js';

/** Why a node of a cluster did not execute a command. */
export type Redirection =
  /** The slot has another master. */
  | { readonly kind: 'moved'; readonly slot: number; readonly address: string }
  /** The slot is moving to another master, where these keys already are, or would be created. */
  | { readonly kind: 'ask'; readonly address: string }
  /**
   * The slot is moving to another master, and only some of these keys have moved. A script may have stopped half-way.
   */
  | { readonly kind: 'again' }
  /** The cluster is incomplete, or does not yet know that it is complete. */
  | {
      readonly kind: 'down';
      /** False if only one slot is affected. */
      readonly isWhole: boolean;
    };

/** The error of a script that stopped half-way because the slot is moving and a key is no longer on this node. */
const STOPPED = /non local key/;

/** @returns undefined if the failure is unrelated to the cluster */
export function redirectionOf({ cause: { cause } }: CommandFailure): Redirection | undefined {
  if (!(cause instanceof Error)) return undefined;
  if (STOPPED.test(cause.message)) return { kind: 'again' };
  const [word, slot, address] = cause.message.split(' ');
  switch (word) {
    case 'MOVED':
      return address === undefined ? undefined : { kind: 'moved', slot: Number(slot), address };
    case 'ASK':
      return address === undefined ? undefined : { kind: 'ask', address };
    case 'TRYAGAIN':
      return { kind: 'again' };
    case 'CLUSTERDOWN':
      return { kind: 'down', isWhole: slot !== 'Hash' };
    case undefined:
    default:
      return undefined;
  }
}
