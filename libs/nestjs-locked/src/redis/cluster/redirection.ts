import type { CommandFailure } from '../connection/traffic/redis-command.js';

/** Why a node of a cluster did not carry out a command, and what is to be done. */
export type Redirection =
  /** The slot has another master. */
  | { readonly kind: 'moved'; readonly slot: number; readonly address: string }
  /** The slot is moving to another master, and these keys are there already, or would be created there. */
  | { readonly kind: 'ask'; readonly address: string }
  /** The slot is moving to another master, and so are some of these keys. A script may have run half-way. */
  | { readonly kind: 'again' }
  /** The cluster is not complete, or does not know it yet. */
  | {
      readonly kind: 'down';
      /** False if it is about one slot only. */
      readonly isWhole: boolean;
    };

/** A script has stopped half-way, because the slot is moving to another master, and a key is not here any more. */
const STOPPED = /non local key/;

/** @returns undefined if the command failed for a reason that has nothing to do with the cluster */
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
