import type { CommandContext } from './commands.js';
import { OK, type Reply } from './reply.js';

/** A command of a script. */
export interface ScriptCommand {
  readonly context: CommandContext;
  readonly name: string;
  readonly args: readonly string[];
}

/** A script that is to run. */
export interface BrokenScript {
  readonly script: string;
  readonly args: readonly string[];
  readonly micros: number;
  readonly run: (args: readonly string[]) => Reply;
}

/** What a server does wrong. */
export interface ServerBreak {
  readonly command?: Break;
  /** Answers instead of a script; undefined: the script runs. */
  readonly script?: (script: BrokenScript) => Reply | undefined;
  /** Whether it says that it has never started again. */
  readonly hidesStarts?: boolean;
}

/** Answers instead of the server; undefined: the server answers. */
type Break = (command: ScriptCommand) => Reply | undefined;

const FENCE = 'lock:fence';
const LOCK = /^lock:\{[^}]*\}$/;

/**
 * What a server does not do, on purpose, to see whether the checker notices. Each breaks one promise, and nothing that
 * the library could see by itself.
 */
export const BREAKS = {
  /** Every lock looks free. */
  'grant to everybody': ({ context, name, args: [key = ''] }) => {
    if (name === 'EXISTS' && LOCK.test(key)) return 0;
    return name === 'GET' && LOCK.test(key) && context.keyspace.get(key) ? null : undefined;
  },
  /** No fencing number is stored, and the clock that makes them stands still. */
  'repeat fences': ({ name, args: [key = ''] }) => {
    if (name === 'TIME') return ['1767225600', '0'];
    if (name === 'SET' && key === FENCE) return null;
    return name === 'GET' && key === FENCE ? null : undefined;
  },
  /** Nobody gets into the queue. */
  'forget who waits': ({ name }) => (name === 'ZADD' ? 1 : undefined),
  /** The lease of a dead holder never ends. */
  'leases never end': ({ context, name, args: [key = '', value = ''] }) => {
    if (!LOCK.test(key)) return undefined;
    if (name === 'SET') context.keyspace.set(key, value);
    return name === 'SET' ? OK : name === 'PEXPIRE' ? 1 : name === 'PTTL' ? 500 : undefined;
  },
  /** A lease lasts half as long as the holder believes. */
  'leases end early': ({ context, name, args: [key = '', value = '', , ms = ''] }) => {
    if (!LOCK.test(key)) return undefined;
    const half = (duration: string): number =>
      Math.floor(context.micros() / 1000) + Math.ceil(Number(duration) / 2);
    if (name === 'SET') context.keyspace.set(key, value, half(ms));
    if (name === 'PEXPIRE')
      context.keyspace.set(key, context.keyspace.get(key)?.value ?? '', half(value));
    return name === 'SET' ? OK : name === 'PEXPIRE' ? 1 : undefined;
  },
} satisfies Readonly<Record<string, Break>>;

/** What each server of a world does wrong, by its number. */
export type Breaks = (server: number) => ServerBreak | undefined;

export type BreakName = keyof typeof BREAKS;

export const BREAK_NAMES = Object.keys(BREAKS) as readonly BreakName[];

export function breaksNamed(name: BreakName | undefined): Breaks | undefined {
  return name === undefined ? undefined : () => ({ command: BREAKS[name] });
}
