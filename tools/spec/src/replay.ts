import type { HistoryLine } from 'check-history';
import { introducedBy, type RanLine, type Recorded, recordedIn } from './recorded.js';
import type { RuleOfHistories } from './rules.js';
import { type KeyState, type Message, NOTHING, run } from './server.js';
import { brokenBy } from './world.js';

export interface Deviation {
  readonly rule: RuleOfHistories;
  readonly at: number;
  readonly text: string;
}

/** How a token begins: with the id of its process and a colon. A zero after it says that the process polls. */
const PROCESS_DIGITS = 32;
const LAPSED_MS = 60_000;
/** How far behind a replica may be. */
const MOST_LAG_MS = 1_000;

/** A state that the key may have now, and since when, in the time of the history. */
interface Possible {
  readonly state: KeyState;
  readonly since: number;
}

/** Until the first deviation; what follows may be its consequence. */
class ReplayOfKey {
  /** Usually one; after a failover, whatever the replica may have known, or after a step of the clock. */
  possible: readonly KeyState[] = [NOTHING];
  highest = 0;
  deviation: Deviation | undefined;
  #past: Possible[] = [{ state: NOTHING, since: 0 }];

  constructor(readonly key: string) {}

  become(states: readonly KeyState[], at: number): void {
    const unique = new Map(states.map((state) => [JSON.stringify(state), state]));
    this.possible = [...unique.values()];
    this.#past.push(...this.possible.map((state) => ({ state, since: at })));
    while ((this.#past[1]?.since ?? Infinity) < at - MOST_LAG_MS) this.#past.shift();
  }

  /** A lease that had ended by then may still be in the server, which removes it some time later, or not. */
  clockSetBack(from: number, at: number): void {
    const ended = this.possible.filter(({ lock }) => lock !== null && lock.until <= from);
    this.become([...this.possible, ...ended.map((state) => ({ ...state, lock: null }))], at);
  }

  lostData(at: number): void {
    this.become([NOTHING, ...this.#past.map(({ state }) => state)], at);
    this.highest = 0;
  }
}

/**
 * Replays a history in the specification: each script must do what the specification allows in a state that the key may
 * have, and who enters must have the lock there.
 */
export function replay(lines: readonly HistoryLine[]): Deviation[] {
  const keys = new Map<string, ReplayOfKey>();
  const introduced = new Map<string, string>();
  const ids = new Map<string, string>();
  let clockAheadMs = 0;
  const unspecified = new Set<string>();
  let excusedUntil = -Infinity;
  let longestLeaseMs = 0;
  const of = (key: string): ReplayOfKey => {
    const found = keys.get(key) ?? new ReplayOfKey(key);
    keys.set(key, found);
    return found;
  };
  for (const line of lines) {
    const { at, type } = line;
    if (type === 'called') longestLeaseMs = Math.max(longestLeaseMs, line.leaseMs);
    if (type === 'unspecified' && line.key === undefined) break;
    if (type === 'unspecified') unspecified.add(`lock:{${line.key}}`);
    // The specification has no operator.
    if (type === 'taken away') unspecified.add(`lock:{${line.key}}`);
    if (type === 'lost data') for (const key of keys.values()) key.lostData(at);
    if (type === 'clock set back') {
      for (const key of keys.values()) key.clockSetBack(at + clockAheadMs, at);
    }
    // Leases have ended in the server, and their holders cannot know it yet.
    if (type === 'lost data' || type === 'clock set forward') excusedUntil = at + longestLeaseMs;
    if (type === 'ran') {
      clockAheadMs = line.micros / 1_000 - at;
      const parts = recordedIn(line);
      for (const recorded of parts) {
        const token = recorded.command && introducedBy(recorded.command);
        if (token !== undefined) ids.set(line.by, processOf(token));
        if (unspecified.has(recorded.key)) continue;
        of(recorded.key).deviation ??= reintroduced(recorded, line, introduced);
      }
      for (const name of new Set(parts.map(({ key }) => key))) {
        if (unspecified.has(name)) continue;
        const ofKey = parts.filter(({ key }) => key === name);
        of(name).deviation ??= stepsOf(of(name), ofKey, line, acceptMsOf(longestLeaseMs));
      }
    }
    if (type !== 'entered' || !line.believed || at < excusedUntil) continue;
    for (const [name, number] of Object.entries(line.fences)) {
      if (unspecified.has(`lock:{${name}}`)) continue;
      const key = of(`lock:{${name}}`);
      const now = Math.floor(at + clockAheadMs);
      key.deviation ??= entry(key, line.process, ids.get(line.process) ?? '', number, now, at);
    }
  }
  return [...keys.values()].flatMap(({ deviation }) => deviation ?? []);
}

function processOf(token: string): string {
  return token.slice(0, PROCESS_DIGITS);
}

/** A command may be sent twice. Otherwise, a token is introduced once. */
function reintroduced(
  { key, command, sent }: Recorded,
  { at }: RanLine,
  introduced: Map<string, string>,
): Deviation | undefined {
  const token = command && introducedBy(command);
  if (token === undefined) return undefined;
  const before = introduced.get(token) ?? sent;
  introduced.set(token, sent);
  if (before === sent) return undefined;
  const text = `'${key}': ${token} was introduced by '${before}', and again by '${sent}'`;
  return { rule: 'one token, one tenure', at, text };
}

/** What a script did to one key, in its parts. Each state that the key may have explains messages of its own. */
function stepsOf(
  key: ReplayOfKey,
  parts: readonly Recorded[],
  line: RanLine,
  acceptMs: number,
): Deviation | undefined {
  let paths = key.possible.map((state) => ({ state, told: 0 }));
  for (const part of parts) {
    const outcomes = paths.map(({ state, told }) => {
      const outcome = step(state, { ...part, messages: part.messages.slice(told) }, line, acceptMs);
      return 'state' in outcome ? { ...outcome, told: told + outcome.told } : outcome;
    });
    paths = outcomes.filter((outcome) => 'state' in outcome);
    const [first] = outcomes;
    if (paths.length === 0 && first !== undefined && 'rule' in first)
      return { ...first, at: line.at };
  }
  key.become(
    paths.map(({ state }) => state),
    line.at,
  );
  return undefined;
}

function step(
  before: KeyState,
  { key: name, command, reply: theirs, messages, isLastOfKey }: Recorded,
  line: RanLine,
  acceptMs: number,
): { readonly state: KeyState; readonly told: number } | Omit<Deviation, 'at'> {
  if (command === undefined) return { state: before, told: 0 };
  const { micros } = line;
  const listening = new Set(line.listening.map((channel) => channel.slice(-PROCESS_DIGITS)));
  const listens = (token: string): boolean => listening.has(processOf(token));
  // A message may be that of a later part.
  const numbers =
    'first' in theirs ? theirs : (messages.find(({ kind }) => kind === 'grant') ?? theirs);
  let least = -Infinity;
  const { key, reply, told } = run(before, command, {
    now: Math.floor(micros / 1_000),
    acceptMs,
    lapsedMs: LAPSED_MS,
    listens,
    polls: (token) => token.charAt(PROCESS_DIGITS + 1) === '0',
    arrival: (last, agoMs) => (agoMs > 0 ? micros - 1_000 * agoMs : Math.max(micros, last + 1)),
    mint: (from) => {
      least = from;
      return 'first' in numbers ? [numbers.first, numbers.last] : [from, from];
    },
    reserve: (from) => {
      least = from;
      return 'last' in theirs ? theirs.last : from;
    },
    givenBack: undefined,
    broken: undefined,
  });
  const deviates = (rule: RuleOfHistories, text: string): Omit<Deviation, 'at'> => ({
    rule,
    text: `'${name}': ${line.script} of ${line.by}: ${text}`,
  });
  const owner = theirs.kind === 'granted' ? theirs.token : undefined;
  const heard = isLastOfKey ? messages : messages.slice(0, told.length);
  const granted = heard.find(({ kind }) => kind === 'grant')?.token;
  if (granted !== undefined && !listens(granted)) {
    return deviates(
      'a grant reaches a listener',
      `${granted} was granted the lock, and does not listen`,
    );
  }
  const holder =
    before.lock !== null && before.lock.until > micros / 1_000 ? before.lock.token : undefined;
  if (owner !== undefined && reply.kind !== 'granted') {
    const rule = holder === undefined ? 'first come, first served' : 'one holder at a time';
    const ahead = holder ?? before.queue[0]?.token ?? 'nobody';
    return deviates(rule, `${owner} was granted the lock, where the specification has ${ahead}`);
  }
  const specified = shown(told);
  if (shown(heard) !== specified) {
    const rule = granted === undefined ? 'as specified' : 'first come, first served';
    return deviates(rule, `it told ${shown(heard)}, where the specification has ${specified}`);
  }
  if (answer(theirs) !== answer(reply)) {
    return deviates(
      'as specified',
      `it answered ${answer(theirs)}, where the specification has ${answer(reply)}`,
    );
  }
  const [first] = 'first' in numbers ? [numbers.first] : 'last' in theirs ? [theirs.last] : [];
  if (first !== undefined && first < least) {
    return deviates(
      'fences rise',
      `it minted ${first}, where the specification has at least ${least}`,
    );
  }
  const waitedMs = command.kind === 'release' ? (command.waitedMs ?? 0) : 0;
  const claimed = waitedMs > 0 ? micros - 1_000 * waitedMs : undefined;
  const broken = brokenBy(before, key, told, listens, processOf, command, claimed);
  return broken === undefined
    ? { state: key, told: told.length }
    : deviates(broken, 'the lock has changed its owner');
}

/** How long a hand-over lasts unless it is confirmed: a tenth of a lease, but a second at least. */
function acceptMsOf(leaseMs: number): number {
  return Math.min(leaseMs, Math.max(1_000, Math.floor(leaseMs / 10)));
}

function shown(messages: readonly Message[]): string {
  return messages.map(({ kind, token }) => `${kind} ${token}`).join(', ') || 'nobody';
}

function answer(reply: Recorded['reply']): string {
  switch (reply.kind) {
    case 'granted':
      return `${reply.kind} ${reply.token}`;
    case 'queued':
      return `${reply.kind} ${reply.token} at ${reply.place}`;
    case 'renewed':
    case 'busy':
    case 'lost':
    case 'released':
    case 'left':
      return reply.kind;
  }
}

function entry(
  key: ReplayOfKey,
  process: string,
  id: string,
  number: number,
  now: number,
  at: number,
): Deviation | undefined {
  const holds = ({ lock }: KeyState): boolean =>
    lock !== null && lock.until > now && processOf(lock.token) === id;
  const states = key.possible.filter(holds);
  if (states.length === 0) {
    const holder = key.possible[0]?.lock?.token ?? 'nobody';
    const text = `'${key.key}': ${process} entered, where the specification has ${holder}`;
    return { rule: 'one holder at a time', at, text };
  }
  const isReserved = states.some(({ fence }) => number <= fence);
  if (!isReserved || number <= key.highest) {
    const text = `'${key.key}': ${process} entered with ${number}, after ${key.highest}`;
    return { rule: 'fences rise', at, text };
  }
  key.highest = number;
  key.become(states, at);
  return undefined;
}
