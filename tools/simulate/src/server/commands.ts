import { type Keyspace, sorted, type SortedSet } from './keyspace.js';
import { ErrorReply, OK, type Reply } from './reply.js';

/** What a command may use besides the keys. */
export interface CommandContext {
  readonly keyspace: Keyspace;
  /** The server's clock, in microseconds since 1970. */
  readonly micros: () => number;
  readonly publish: (channel: string, message: string) => number;
  readonly listeners: (channel: string) => number;
  /** What the server tells of itself. */
  readonly info: () => string;
}

type Command = (context: CommandContext, args: readonly string[]) => Reply;

const WRONG_TYPE = new ErrorReply(
  'WRONGTYPE Operation against a key holding the wrong kind of value',
);
const SYNTAX = new ErrorReply('ERR syntax error');
const NOT_AN_INTEGER = new ErrorReply('ERR value is not an integer or out of range');
const NOT_A_FLOAT = new ErrorReply('ERR value is not a valid float');

/**
 * The commands that the library uses, as far as it uses them. `test/model.spec.ts` holds them against a real server.
 */
const COMMANDS: Readonly<Record<string, { readonly atLeast: number; readonly run: Command }>> = {
  PING: { atLeast: 0, run: () => 'PONG' },
  INFO: { atLeast: 0, run: ({ info }) => info() },
  TIME: {
    atLeast: 0,
    run: ({ micros }) => {
      const now = micros();
      return [String(Math.floor(now / 1e6)), String(now % 1e6)];
    },
  },
  GET: {
    atLeast: 1,
    run: ({ keyspace }, [key = '']) => {
      const { value = null } = keyspace.get(key) ?? {};
      return value === null || typeof value === 'string' ? value : WRONG_TYPE;
    },
  },
  SET: { atLeast: 2, run: set },
  DEL: {
    atLeast: 1,
    run: ({ keyspace }, keys) => keys.filter((key) => keyspace.delete(key)).length,
  },
  EXISTS: {
    atLeast: 1,
    run: ({ keyspace }, keys) => keys.filter((key) => keyspace.get(key) !== undefined).length,
  },
  PEXPIRE: {
    atLeast: 2,
    run: ({ keyspace, micros }, [key = '', ms = '', option]) => {
      const duration = integerFrom(ms);
      if (duration === undefined) return NOT_AN_INTEGER;
      const entry = keyspace.get(key);
      if (entry === undefined) return 0;
      const isLater = millis(micros) + duration > entry.expiresAt;
      if (option?.toUpperCase() === 'GT' && !isLater) return 0;
      if (duration <= 0) keyspace.delete(key);
      else keyspace.set(key, entry.value, millis(micros) + duration);
      return 1;
    },
  },
  PTTL: {
    atLeast: 1,
    run: ({ keyspace, micros }, [key = '']) => {
      const entry = keyspace.get(key);
      if (entry === undefined) return -2;
      return entry.expiresAt === Infinity ? -1 : entry.expiresAt - millis(micros);
    },
  },
  ZADD: {
    atLeast: 3,
    run: ({ keyspace }, [key = '', ...rest]) => {
      const isNew = rest[0]?.toUpperCase() === 'NX';
      const pairs = isNew ? rest.slice(1) : rest;
      if (pairs.length % 2 === 1) return SYNTAX;
      const scores = pairs.filter((_, i) => i % 2 === 0).map(scoreFrom);
      if (scores.some((score) => score === undefined)) return NOT_A_FLOAT;
      return changeSet(keyspace, key, (set) => {
        const before = set.size;
        scores.forEach((score, i) => {
          const member = pairs[2 * i + 1] as string;
          if (!isNew || !set.has(member)) set.set(member, score as number);
        });
        return set.size - before;
      });
    },
  },
  ZREM: {
    atLeast: 2,
    run: ({ keyspace }, [key = '', ...members]) =>
      changeSet(keyspace, key, (set) => members.filter((member) => set.delete(member)).length),
  },
  ZCARD: {
    atLeast: 1,
    run: ({ keyspace }, [key = '']) => ofSet(keyspace, key, ({ size }) => size),
  },
  ZSCORE: {
    atLeast: 2,
    run: ({ keyspace }, [key = '', member = '']) =>
      ofSet(keyspace, key, (set) => {
        const score = set.get(member);
        return score === undefined ? null : scoreText(score);
      }),
  },
  ZRANK: {
    atLeast: 2,
    run: ({ keyspace }, [key = '', member = '']) =>
      ofSet(keyspace, key, (set) => {
        const rank = sorted(set).findIndex(([name]) => name === member);
        return rank === -1 ? null : rank;
      }),
  },
  ZRANGE: { atLeast: 3, run: (context, args) => range(context, args, false) },
  ZREVRANGE: { atLeast: 3, run: (context, args) => range(context, args, true) },
  PUBLISH: {
    atLeast: 2,
    run: ({ publish }, [channel = '', message = '']) => publish(channel, message),
  },
  PUBSUB: {
    atLeast: 1,
    run: ({ listeners }, [subcommand = '', ...channels]) => {
      if (subcommand.toUpperCase() !== 'NUMSUB') return SYNTAX;
      return channels.flatMap((channel) => [channel, listeners(channel)]);
    },
  },
};

/** @returns the answer, also for a command that the model does not know */
export function execute(context: CommandContext, name: string, args: readonly string[]): Reply {
  const command = COMMANDS[name.toUpperCase()];
  if (command === undefined) return new ErrorReply(`ERR unknown command '${name}'`);
  if (args.length < command.atLeast) {
    return new ErrorReply(`ERR wrong number of arguments for '${name.toLowerCase()}' command`);
  }
  return command.run(context, args);
}

/** SET key value [PX milliseconds] [NX] [GET] */
function set({ keyspace, micros }: CommandContext, args: readonly string[]): Reply {
  const [key = '', value = '', ...options] = args;
  let duration: number | undefined;
  let isNew = false;
  let isGet = false;
  for (let i = 0; i < options.length; i += 1) {
    const option = options[i]?.toUpperCase();
    if (option === 'NX') isNew = true;
    else if (option === 'GET') isGet = true;
    else if (option === 'PX' && i + 1 < options.length && duration === undefined) {
      i += 1;
      duration = integerFrom(options[i] as string);
      if (duration === undefined) return NOT_AN_INTEGER;
      if (duration <= 0) return new ErrorReply("ERR invalid expire time in 'set' command");
    } else return SYNTAX;
  }
  const before = keyspace.get(key)?.value ?? null;
  if (isGet && before !== null && typeof before !== 'string') return WRONG_TYPE;
  const answer = isGet ? (before as string | null) : OK;
  if (isNew && before !== null) return isGet ? answer : null;
  keyspace.set(key, value, duration === undefined ? Infinity : millis(micros) + duration);
  return answer;
}

function range({ keyspace }: CommandContext, args: readonly string[], isReverse: boolean): Reply {
  const [key = '', low = '', high = '', ...options] = args;
  const [from, to] = [integerFrom(low), integerFrom(high)];
  if (options.length > 1 || (options.length === 1 && options[0]?.toUpperCase() !== 'WITHSCORES'))
    return SYNTAX;
  if (from === undefined || to === undefined) return NOT_AN_INTEGER;
  return ofSet(keyspace, key, (set) => {
    const members = sorted(set);
    if (isReverse) members.reverse();
    const [first, last] = [from, to].map((i) => (i < 0 ? members.length + i : i)) as [
      number,
      number,
    ];
    return members
      .slice(Math.max(0, first), Math.max(0, last + 1))
      .flatMap(([member, score]) => (options.length === 0 ? [member] : [member, scoreText(score)]));
  });
}

function ofSet(keyspace: Keyspace, key: string, read: (set: SortedSet) => Reply): Reply {
  const { value = new Map<string, number>() } = keyspace.get(key) ?? {};
  return typeof value === 'string' ? WRONG_TYPE : read(value);
}

function changeSet(keyspace: Keyspace, key: string, change: (set: SortedSet) => number): Reply {
  const entry = keyspace.get(key);
  if (typeof entry?.value === 'string') return WRONG_TYPE;
  const next = new Map(entry?.value);
  const answer = change(next);
  if (next.size === 0) keyspace.delete(key);
  else keyspace.set(key, next, entry?.expiresAt);
  return answer;
}

function millis(micros: () => number): number {
  return Math.floor(micros() / 1000);
}

function integerFrom(text: string): number | undefined {
  return /^-?(?:0|[1-9]\d*)$/.test(text) && text !== '-0' ? Number(text) : undefined;
}

function scoreFrom(text: string): number | undefined {
  if (/^[+-]?inf(?:inity)?$/i.test(text)) return text.startsWith('-') ? -Infinity : Infinity;
  return /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(text) ? Number(text) : undefined;
}

/** Redis writes whole scores without an exponent, up to 2^53 and beyond; the library uses no others. */
function scoreText(score: number): string {
  if (!Number.isFinite(score)) return score < 0 ? '-inf' : 'inf';
  return String(score);
}
