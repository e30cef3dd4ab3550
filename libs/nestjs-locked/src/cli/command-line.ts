import { parseArgs } from 'node:util';
import { assertKeyPrefix, DEFAULT_KEY_PREFIX } from '../core/keys/key-prefix.js';
import { assertKeyPattern, assertLockKey } from '../core/keys/lock-key.js';
import { closest } from '../core/option-advice.js';
import { quoted } from '../core/runtime/quoted.js';
import { UsageError } from './usage-error.js';

interface Common {
  /** The URL of Redis. */
  readonly redis: string;
  readonly keyPrefix: string;
  readonly json: boolean;
}

/** A command about all locks that match a pattern. */
type ListCommand<Name> = Common & { readonly name: Name; readonly pattern: string };

/** What the operator has asked for. */
export type CommandLine =
  | { readonly name: 'help' }
  | ListCommand<'ls'>
  | ListCommand<'watch'>
  | ListCommand<'graph'>
  | (Common & { readonly name: 'inspect'; readonly key: string })
  | (Common & {
      readonly name: 'release';
      readonly key: string;
      readonly isConfirmed: boolean;
      /** Of the only lease that is meant. */
      readonly leaseId: string | undefined;
    });

/** One kind of them. */
export type Asked<Name extends CommandLine['name']> = Extract<CommandLine, { readonly name: Name }>;

const COMMANDS = ['ls', 'watch', 'inspect', 'graph', 'release'] as const;
type Command = (typeof COMMANDS)[number];

const OPTIONS = {
  redis: { type: 'string' },
  prefix: { type: 'string', default: DEFAULT_KEY_PREFIX },
  json: { type: 'boolean', default: false },
  yes: { type: 'boolean', default: false },
  lease: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

/**
 * @param redisUrl the variable REDIS_URL
 * @throws UsageError · LockKeyError · LockConfigError
 */
export function readCommandLine(
  args: readonly string[],
  redisUrl: string | undefined,
): CommandLine {
  const { values, positionals } = parsed(args);
  if (values.help) return { name: 'help' };
  const [first, ...subjects] = positionals;
  const name = commandOf(first);
  if (values.yes && name !== 'release') throw new UsageError('--yes belongs to release');
  if (values.lease !== undefined && name !== 'release')
    throw new UsageError('--lease belongs to release');
  const subject = onlyOne(name, subjects);
  const common = { ...redisOf(values.redis ?? redisUrl), json: values.json };
  assertKeyPrefix('--prefix', values.prefix);
  const keyPrefix = values.prefix;
  if (name === 'ls' || name === 'watch' || name === 'graph') {
    const pattern = subject ?? '*';
    assertKeyPattern(pattern);
    return { ...common, keyPrefix, name, pattern };
  }
  if (subject === undefined) throw new UsageError(`${name} needs a key: ${name} stock:42`);
  if (/[<{}]/.test(subject)) {
    throw new UsageError(
      `No key has '<', '{' or '}', as ${quoted(subject)} does: write it with its values, and without the keyPrefix and the braces in Redis: ${name} stock:42`,
    );
  }
  assertLockKey(subject);
  const asked = { ...common, keyPrefix, key: subject };
  if (name === 'inspect') return { ...asked, name };
  return { ...asked, name, isConfirmed: values.yes, leaseId: values.lease };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    const [, option] = /^Unknown option '(--?[^'=]*)/.exec((error as Error).message) ?? [];
    if (option === undefined) throw new UsageError((error as Error).message);
    const names = Object.keys(OPTIONS).map((name) => `--${name}`);
    throw new UsageError(`Unknown option ${quoted(option)}: write one of ${names.join(', ')}`);
  }
}

function commandOf(text: string | undefined): Command {
  if (text === undefined) throw new UsageError(`Write a command: ${COMMANDS.join(', ')}`);
  const name = COMMANDS.find((command) => command === text);
  if (name !== undefined) return name;
  const meant = closest(text, COMMANDS);
  const advice =
    meant === undefined ? `write one of ${COMMANDS.join(', ')}` : `did you mean ${meant}?`;
  throw new UsageError(`Unknown command ${quoted(text)}: ${advice}`);
}

function onlyOne(name: Command, [subject, ...others]: readonly string[]): string | undefined {
  if (others.length === 0) return subject;
  const advice =
    "put quotation marks around a pattern, so that the shell does not fill it in: 'stock:*'";
  throw new UsageError(`${name} takes one argument, and not ${others.length + 1}; ${advice}`);
}

function redisOf(redis: string | undefined): { readonly redis: string } {
  if (redis !== undefined) return { redis };
  throw new UsageError(
    'Which Redis? Set the variable REDIS_URL, or write --redis redis://localhost:6379',
  );
}
