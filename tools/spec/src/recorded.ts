import type { HistoryLine } from 'check-history';
import type { Command, Message, Reply } from './server.js';

export type RanLine = Extract<HistoryLine, { type: 'ran' }>;

/** What a script did to one key, as it was recorded. */
export interface Recorded {
  readonly key: string;
  /** The script and its arguments; in a batch, those of the part for this key. */
  readonly sent: string;
  /** Undefined if this key was left alone. */
  readonly command: Command | undefined;
  readonly reply: Reply;
  /** What the script said about the key; a part of it belongs to the next one if that is for the same key. */
  readonly messages: readonly Message[];
  readonly isLastOfKey: boolean;
}

type OfOne = Pick<Recorded, 'key' | 'command' | 'reply'> & Partial<Pick<Recorded, 'sent'>>;

const KEYS_EACH = 4;

/** @returns one entry for each key of the script, which may repeat one; none for scripts that only read */
export function recordedIn(line: RanLine): Recorded[] {
  return commandsOf(line).map((of, i, all) => ({
    sent: sentText(line),
    ...of,
    messages: messagesIn(line, of.key),
    isLastOfKey: all.slice(i + 1).every(({ key }) => key !== of.key),
  }));
}

function commandsOf(line: RanLine): OfOne[] {
  const { script, keys, args, reply } = line;
  const [token = '', second = '', third = '', fourth = '', fifth = '', sixth = ''] = args;
  const one = (command: Command): OfOne[] => [
    { key: keys[0] ?? '', command, reply: replyFrom(reply, token) },
  ];
  const each = (of: (i: number) => Omit<OfOne, 'key'>, keysEach = KEYS_EACH): OfOne[] =>
    keys.filter((_, i) => i % keysEach === 0).map((key, i) => ({ key, ...of(i) }));
  const argsOf = (i: number): readonly string[] => args.slice(KEYS_EACH * i, KEYS_EACH * (i + 1));
  switch (script) {
    case 'acquire': {
      const place = fourth === '' ? undefined : Number(fourth);
      return one({
        kind: 'acquire',
        token,
        leaseMs: Number(second),
        nowait: third === '1',
        place,
      });
    }
    case 'recheck': {
      const [leaseMs, place] = [Number(third), Number(fourth)];
      return one({ kind: 'recheck', token, newToken: second, leaseMs, place });
    }
    case 'release': {
      const more = third === '' ? {} : { newToken: third, leaseMs: Number(fourth) };
      const [used, keepMs, waitedMs] = [Number(second), Number(fifth), Number(sixth)];
      return one({ kind: 'release', token, used, ...more, keepMs, waitedMs });
    }
    case 'leave':
      return one({ kind: 'leave', token, other: second || token, leaseMs: Number(third) });
    case 'renew':
      return each((i) => {
        const [ofToken = '', leaseMs, used, count] = argsOf(i);
        const [last, waiters] = (reply as (readonly unknown[])[])[i] ?? [];
        const command = { kind: 'renew', token: ofToken, used: Number(used) } as const;
        const reserves = Number(last ?? 0) > 0 ? Math.max(1, Number(count)) : 0;
        return {
          command: { ...command, leaseMs: Number(leaseMs), reserves },
          reply:
            last === undefined
              ? { kind: 'lost' }
              : { kind: 'renewed', last: Number(last), waiters: Number(waiters) },
        };
      });
    case 'prolong': {
      const [, ...entries] = reply as [number, ...(readonly [number, number?])[]];
      const named = new Map(entries.map(([n, waiters]) => [n, waiters]));
      return each((i) => {
        const [ofToken = '', leaseMs] = args.slice(2 * i, 2 * i + 2);
        const command = { kind: 'renew', token: ofToken, used: 0, reserves: 0 } as const;
        const isLost = named.has(i + 1) && named.get(i + 1) === undefined;
        return {
          command: { ...command, leaseMs: Number(leaseMs) },
          reply: isLost
            ? { kind: 'lost' }
            : { kind: 'renewed', last: 0, waiters: Number(named.get(i + 1) ?? 0) },
        };
      }, 2);
    }
    case 'take-back':
      return each((i) => {
        const [ofToken = '', other = '', used, keepMs] = argsOf(i);
        const command = { kind: 'take back', token: ofToken, other: other || ofToken } as const;
        return {
          command: { ...command, used: Number(used), keepMs: Number(keepMs) },
          reply: { kind: 'left' },
        };
      });
    case 'acquire-together': {
      const [kind, ...ofKeys] = reply as [string, ...(readonly unknown[])[]];
      return each((i) => {
        const mine = args[1 + i] ?? '';
        const found = ofKeys[i] ?? [];
        const leaseMs = Number(token);
        const command = { kind: 'acquire', token: mine, leaseMs, nowait: true } as const;
        if (kind === 'granted') return { command, reply: granted(mine, found[0], found[1]) };
        return { command: found.length > 0 ? command : undefined, reply: { kind: 'busy' } };
      });
    }
    case 'batch':
      return ofBatch(line);
    default:
      return [];
  }
}

/** A letter for each acquire (from a on) and release (from A on) says how many arguments it has. */
function ofBatch({ args: [letters = '', ...args], reply, ...line }: RanLine): OfOne[] {
  let from = 0;
  return [...letters].flatMap((letter, i) => {
    const script = letter >= 'a' ? 'acquire' : 'release';
    const keys = line.keys.slice(KEYS_EACH * i, KEYS_EACH * (i + 1));
    const own = args.slice(from, (from += letter.toUpperCase().charCodeAt(0) - 64));
    const part = { ...line, script, keys, args: own, reply: (reply as unknown[])[i] };
    const commands = isLeftOut(part.reply) ? leftAlone(part) : commandsOf(part);
    return commands.map((of) => ({ ...of, sent: sentText(part) }));
  });
}

/** Whether this part of a batch was refused, or is to be sent again, because the memory is full for example. */
function isLeftOut(reply: unknown): boolean {
  return Array.isArray(reply) && (reply[0] === 'again' || reply[0] === 'refused');
}

function leftAlone({ keys }: RanLine): OfOne[] {
  return [{ key: keys[0] ?? '', command: undefined, reply: { kind: 'left' } }];
}

function sentText({ script, args }: Pick<RanLine, 'script' | 'args'>): string {
  return [script, ...args].join(' ');
}

/** The tokens that a command brings into the queue or the lock for the first time. */
export function introducedBy(command: Command): string | undefined {
  switch (command.kind) {
    case 'acquire':
      return command.token;
    case 'recheck':
    case 'release':
      return command.newToken;
    case 'renew':
    case 'leave':
    case 'take back':
      return undefined;
  }
}

/** The messages about one key. */
function messagesIn({ messages }: RanLine, key: string): Message[] {
  const name = /\{(.*)\}$/.exec(key)?.[1] ?? '';
  return messages.flatMap(([, text]): Message[] => {
    const [kind = '', token = '', first, last, waiters] = text.split(' ');
    if (!text.endsWith(` ${name}`)) return [];
    switch (kind) {
      case 'g': {
        const numbers = { first: Number(first), last: Number(last), waiters: Number(waiters) };
        return [{ kind: 'grant', token, ...numbers }];
      }
      case 'w':
        return [{ kind: 'wanted', token }];
      case 'h':
        return [{ kind: 'head', token, ms: Number(first) }];
      default:
        return [];
    }
  });
}

function replyFrom(reply: unknown, token: string): Reply {
  if (!Array.isArray(reply)) {
    return reply === 'released' ? { kind: 'released' } : granted(token, reply, reply);
  }
  const [kind, of, first, second, third] = reply as readonly unknown[];
  switch (kind) {
    case 'granted':
      return { ...granted(String(of), first, second), waiters: Number(third) };
    case 'queued':
      return { kind, token: String(of), place: Number(first), ms: Number(second) };
    default:
      return { kind: kind as 'busy' | 'lost' | 'released' | 'left' };
  }
}

function granted(
  token: string,
  first: unknown,
  last: unknown,
): Extract<Reply, { kind: 'granted' }> {
  return { kind: 'granted', token, first: Number(first), last: Number(last), waiters: 0 };
}
