import { Redis } from 'ioredis';
import type { RedisAddress } from '../stages/redis-address.js';
import { isQuorum } from '../stages/redis-address.js';

/** The scripts of a quorum have three keys for each lock, and are told apart by how much they are given. */
const KEYS_OF_A_LOCK = 3;
const GIVEN_TO_VOTE = 4;
const GIVEN_TO_GIVE_BACK = 8;
const USED = 2;

interface FalseVotes {
  /** What a script is given. */
  readonly given?: (values: unknown[]) => unknown[];
  /** What the node with this port answers. */
  readonly answer?: (reply: unknown, port: number | undefined) => unknown;
}

/** What a process does wrong with the votes of a quorum, on purpose. The checker must notice each of these. */
const FALSE_VOTES = {
  /** One vote less is enough: what one of the nodes says is taken for a yes. */
  'too-few-votes': { answer: (reply, port) => (port === falsePort ? asYes(reply) : reply) },
  /** What was used is given back with the rest, as if nobody had used it. */
  'used-numbers-given-back': {
    given: (values) =>
      values.length === GIVEN_TO_GIVE_BACK && values[USED] !== ''
        ? values.map((value, n) => (n === USED ? 1 : value))
        : values,
  },
  /** A node votes as soon as it has started, whatever it has forgotten. */
  'no-quarantine': {},
} satisfies Record<string, FalseVotes>;

export type BreakOfVotes = keyof typeof FALSE_VOTES;

export const BREAKS_OF_VOTES = Object.keys(FALSE_VOTES) as BreakOfVotes[];

export function isOfVotes(name: string): name is BreakOfVotes {
  return name in FALSE_VOTES;
}

let falsePort: number | undefined;

/** Falsifies what this process tells the nodes, and hears from them. @returns the address that it is to use */
export function falsifyVotes(breaks: readonly string[], address: RedisAddress): RedisAddress {
  if (!isQuorum(address)) return address;
  falsePort ??= Number(new URL(address.quorum[0] ?? '').port);
  const chosen = breaks.filter(isOfVotes);
  return chosen.includes('no-quarantine') ? { ...address, rejoinAfterMs: 0 } : address;
}

/** Once for each process. */
export function installFalseVotes(breaks: readonly string[]): void {
  const chosen = breaks.filter(isOfVotes).map((name): FalseVotes => FALSE_VOTES[name]);
  if (chosen.length === 0) return;
  for (const name of ['evalsha', 'eval'] as const) {
    const call = Reflect.get(Redis.prototype, name) as (...args: unknown[]) => Promise<unknown>;
    const falsified = async function (this: Redis, ...args: unknown[]): Promise<unknown> {
      const [script, count, ...rest] = args;
      const keys = rest.slice(0, Number(count));
      let values = rest.slice(Number(count));
      for (const { given } of chosen) values = given?.(values) ?? values;
      let reply = await call.call(this, script, count, ...keys, ...values);
      const isOfOneLock = keys.length === KEYS_OF_A_LOCK;
      if (!isOfOneLock || values.length > GIVEN_TO_VOTE) return reply;
      for (const { answer } of chosen) reply = answer?.(reply, this.options.port) ?? reply;
      return reply;
    };
    Object.defineProperty(Redis.prototype, name, { value: falsified });
  }
}

/** A refusal of a vote, or of a renewal. */
function asYes(reply: unknown): unknown {
  if (!Array.isArray(reply)) return reply;
  const now = Date.now() * 1_000;
  if (reply[0] === 'no') return ['vote', String(now), String(now + 1_000_000), 0];
  const [renewed] = reply as unknown[];
  if (Array.isArray(renewed) && renewed[0] === 'no') return [['renewed', renewed[1]]];
  return reply;
}
