import { type Effects, type Entry, FORCED, type Promoted } from '../src/history/entry.js';

/** What was said of an event: `leaseMs=500`, `keys=k,m`, `tokens=k:1,m:2`. */
type Told = Readonly<Record<string, unknown>>;

const ASKED = {
  what: 'test',
  keys: ['k'],
  waitMs: 20_000,
  leaseMs: 1_000,
  maxHoldMs: 60_000,
  renew: true,
  holdAtLeastMs: 0,
  lingerMs: 0,
};

/** What may be said of an event. A word that is none of these is a mistake in the spec. */
const NAMES = new Set([
  ...Object.keys(ASKED),
  ...['permits', 'weight', 'slots', 'adopts'],
  ...['reads', 'askedAt', 'token', 'tokens', 'validUntil', 'remainingMs', 'answer', 'parent'],
  ...['until', 'ms', 'shutdownMs', 'code', 'wasClosed'],
  ...['name', 'of', 'leases', 'notice', 'healingMs', 'keepsLeasesFromMs'],
]);

/** What each fault does. `of` says to which keys, or to which process. */
const FAULTS: Readonly<Record<string, (of: string[], leases: object) => Partial<Effects>>> = {
  nothing: () => ({}),
  wipe: () => ({ disturbs: 'all', forgets: 'all', notice: 'reconnect' }),
  trouble: (of) => ({ disturbs: of.length === 0 ? 'all' : { serverOf: of } }),
  moved: ([key = 'k']) => ({ disturbs: { slotOf: key } }),
  deleted: ([key = 'k']) => ({ disturbs: { key }, forgets: { key } }),
  operator: ([key = 'k']) => ({ disturbs: { key }, forgets: { key }, notice: 'message' }),
  silence: (of) => ({ silences: of.length === 0 ? 'all' : { serverOf: of } }),
  suspended: ([process = '']) => ({ forgets: { process }, notice: 'waking' }),
  /** Of what was granted after 150, the replica may know nothing. `leases=k:a@500`: it knows that a has k until 500. */
  promoted: (_, leases) => {
    const known = Object.entries(leases).map(([key, lease]) => {
      const [process = '', until] = String(lease).split('@');
      return [key, until === undefined ? null : { process, until: Number(until) }];
    });
    const unknownTo = { cutAt: 150, leases: Object.fromEntries(known) as Promoted['leases'] };
    return { forgets: { unknownTo }, notice: 'reconnect' };
  },
};

/**
 * Reads a history, whose events are separated by semicolons:
 *
 * - `a/1 10-400 leaseMs=500` is a call of process a that asks just before 10, holds until 400, and releases then;
 *   `a/1 10-` never ends
 * - `a/1 refused 9 LOCK_ABORTED`, `a stalled 20-90` are entries of these kinds, about a call or a process
 * - `wipe 100-150`, `trouble 100-200 of=k` are faults
 *
 * @throws Error if it contains a word that means nothing
 */
export function read(...texts: readonly string[]): Entry[] {
  return texts.flatMap((text) => text.split(';')).flatMap((text) => eventsOf(text.trim()));
}

function eventsOf(text: string): Entry[] {
  const [subject = '', ...words] = text.split(' ');
  const kind = /^[a-z]/.test(words[0] ?? '') ? words.shift() : undefined;
  const [from = 0, until = from] = (words.shift() ?? '').split('-').map(numberIn);
  const isTold = (word: string): boolean => word.includes('=');
  const { of = [], leases = {}, ...told } = Object.fromEntries(words.filter(isTold).map(toldBy));
  const said = words.filter((word) => !isTold(word)).join(' ');
  const effects = FAULTS[subject]?.(of as string[], leases as object);
  if (effects !== undefined) {
    const name = subject === 'operator' ? FORCED : 'test';
    const fault = { kind: 'fault', at: from, until, name, disturbs: 'nothing' } as const;
    return [{ ...fault, ...effects, ...told }];
  }
  if (subject === 'foreign') {
    const rest = { call: 'foreign/1', key: 'k', leaseMs: 100 };
    return [{ kind: 'foreign', at: from, until, ...rest }];
  }
  if (kind === undefined && !subject.includes('/')) throw new Error(`no such fault: ${text}`);
  if (kind === undefined) return heldBy(subject, from, until, told);
  return [entryOf(kind, subject, [from, until], said, told)];
}

/** A call that asks, holds and releases. */
function heldBy(call: string, from: number, to: number, told: Told): Entry[] {
  const { slots, token = from, askedAt = from - 1, ...others } = told;
  const { tokens = slots === undefined ? { k: token } : {}, ...more } = others;
  const { validUntil = to, remainingMs = 500, answer = true, ...asked } = more;
  const keys = Object.keys({ ...(tokens as object), ...(slots as object | undefined) });
  const begun = [
    entryOf('asked', call, [from, askedAt as number], '', { keys, ...asked }),
    { kind: 'held', at: from, call, tokens, slots, remainingMs },
    { kind: 'valid', at: from, call, until: validUntil },
  ];
  const ended = [
    { kind: 'ended', at: to, call },
    { kind: 'released', at: to + 1, call, answer },
  ];
  return [...begun, ...(to === Infinity ? [] : ended)] as Entry[];
}

function entryOf(
  kind: string,
  subject: string,
  [since, at]: readonly [number, number],
  said: string,
  told: Told,
): Entry {
  const [process = '', ofCall] = subject.split('/');
  const [first = 'LOCK_NOT_ACQUIRED', ...more] = said.split(' ').filter((word) => word !== '');
  const usual: Readonly<Record<string, object>> = {
    asked: { ...ASKED, process, service: `${process}.1a` },
    refused: { code: first, message: more.join(' ') || 'because' },
    lost: { key: 'k', reason: first },
    inspected: { since: at - 1, key: 'k', found: said },
    wrong: { what: said },
    stalled: { since },
    closing: { services: [`${process}.1a`] },
    closed: { services: [`${process}.1a`] },
    ...{ detaches: {}, detached: {} },
    ...{ aborted: {}, valid: {}, ensured: {}, acted: {}, ended: {}, killed: {}, exited: {} },
  };
  if (usual[kind] === undefined) throw new Error(`no such kind of entry: ${kind}`);
  const about = ofCall === undefined ? { process } : { call: subject };
  return { kind, at, ...about, ...usual[kind], ...told } as unknown as Entry;
}

function toldBy(word: string): [string, unknown] {
  const [name = '', text = ''] = word.split('=');
  if (!NAMES.has(name)) throw new Error(`no such word: ${word}`);
  if (text.includes(':')) {
    const pairs = text.split(',').map((pair) => pair.split(':'));
    return [name, Object.fromEntries(pairs.map(([key, value = '']) => [key, valueIn(value)]))];
  }
  return [
    name,
    name === 'keys' || name === 'reads' || name === 'of' ? text.split(',') : valueIn(text),
  ];
}

function valueIn(text: string): unknown {
  if (text === 'null' || text === 'true' || text === 'false') return JSON.parse(text);
  return /^-?[\d.]+$/.test(text) ? Number(text) : text;
}

/** An end that is left out never comes. */
function numberIn(text: string): number {
  return text === '' ? Infinity : Number(text);
}
