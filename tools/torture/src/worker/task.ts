import type { RedisLockModuleOptions } from 'nestjs-locked';
import type { RedisAddress } from '../stages/redis-address.js';
import type { GivesUp } from './crowd.js';
import type { Feature, KindOfCall } from './repertoire.js';
import type { Break } from './sabotage.js';

/** The exit code of a worker whose application could not start because of Redis. Nothing is wrong with that. */
export const NOT_STARTED = 75;

/** One lock service of a worker. */
export interface ServiceTask {
  /** Undefined for the service without a name. */
  readonly name: string | undefined;
  readonly redis: RedisAddress;
  /** The form in which the module is told where Redis is. */
  readonly connection: 'url' | 'options' | 'client';
  readonly options: Required<
    Pick<RedisLockModuleOptions, 'leaseMs' | 'lingerMs' | 'localHandovers' | 'awaitRelease'>
  >;
  readonly callers: number;
  readonly readers: Readers;
  readonly permits: Permits;
}

/** Which part of the calls for these keys only read. */
export interface Readers {
  readonly keys: readonly string[];
  readonly share: number;
}

/** How many permits there are of some keys, and which part of the calls for them wants such. */
export interface Permits {
  readonly numbers: Readonly<Record<string, number>>;
  readonly share: number;
}

/** What a worker is told to do. */
export interface WorkerTask {
  readonly name: string;
  readonly seed: number;
  readonly history: string;
  readonly services: readonly ServiceTask[];
  readonly shutdownMs: number;
  readonly kinds: readonly KindOfCall[];
  readonly without: readonly Feature[];
  /** Breaks the lock on purpose. */
  readonly breaks: readonly Break[];
  /** Does nothing until it is told to finish, and then asks for every key once. */
  readonly sweeps: boolean;
}

interface Through {
  /** The URL by which Redis must be reached, if that matters. */
  readonly through?: string;
}

/** What a worker is told while it runs. */
export type Order =
  /** Let all callers finish, then close and end. */
  | { readonly do: 'finish' }
  /** Close the application in the middle of its work, and start another one. */
  | { readonly do: 'restart the application' }
  /** Do nothing else for so long, as a handler does that computes. */
  | { readonly do: 'block'; readonly ms: number }
  | { readonly do: 'step the wall clock'; readonly ms: number }
  /** The process will be stopped for at least so long, and its monotonic clock with it. */
  | { readonly do: 'expect to be suspended'; readonly ms: number }
  | ({ readonly do: 'hold' } & Hold)
  | ({ readonly do: 'adopt'; readonly afterMs: number } & DetachedLock)
  | ({ readonly do: 'send a crowd' } & Crowd)
  /** Take the key from its holder, as an operator would. */
  | { readonly do: 'force release'; readonly key: string };

/** A key to be held for so long, perhaps with a lease of another length than usual. */
export interface Hold extends Through {
  readonly key: string;
  readonly ms: number;
  readonly leaseMs?: number;
}

interface Crowd extends Through {
  readonly keys: readonly string[];
  readonly gives: GivesUp;
}

/** A lock that somebody may adopt. */
export interface DetachedLock {
  readonly text: string;
  /** The call that has detached it. */
  readonly from: string;
  readonly keys: readonly string[];
}

/** What a worker says. */
export type Report =
  { readonly is: 'ready' | 'closed' } | ({ readonly is: 'detached' } & DetachedLock);
