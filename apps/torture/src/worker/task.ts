import type { Feature, KindOfCall } from './repertoire.js';
import type { Break } from './sabotage.js';

/** The exit code of a worker whose application could not start, because of Redis: nothing is wrong with that. */
export const NOT_STARTED = 75;

/** One lock service of a worker. */
export interface ServiceTask {
  /** Undefined: the service without a name. */
  readonly name: string | undefined;
  readonly redisUrl: string;
  /** How the module is told where Redis is. */
  readonly connection: 'url' | 'options' | 'client';
  readonly leaseMs: number;
  readonly lingerMs: number;
  readonly localHandovers: number;
  readonly awaitRelease: boolean;
  readonly callers: number;
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
  /** Does nothing until it is told to finish; then it asks for every key once. */
  readonly sweeps: boolean;
}

/** What a worker is told while it runs. */
export type Order =
  /** Let everybody finish, close, end. */
  | { readonly do: 'finish' }
  /** Close the application in the middle of its work, and start another one. */
  | { readonly do: 'restart the application' }
  /** As an operator: take the key from whoever has it. */
  | { readonly do: 'force release'; readonly key: string };

/** What a worker says. */
export type Report = { readonly is: 'ready' } | { readonly is: 'closed'; readonly at: number };
