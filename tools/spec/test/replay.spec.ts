/** A history of the library is allowed; each forgery of it breaks the rule that it is named for. */
import { beforeAll, describe, expect, it } from '@jest/globals';
import type { HistoryLine } from 'check-history';
import { fileURLToPath } from 'node:url';
import { runCommand, UNGUARDED } from '../../../test/support/run-command.js';
import { replay } from '../src/replay.js';
import { brokenBy } from '../src/world.js';

type Ran = Extract<HistoryLine, { type: 'ran' }>;

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** Three processes compete: they queue, hand over, re-check, and leave. */
const SEED = '9';

let lines: readonly HistoryLine[] = [];

beforeAll(async () => {
  const program = ['tools/simulate/dist/main.js', '--seed', SEED, '--print'];
  const { stdout } = await runCommand(process.execPath, program, ROOT, UNGUARDED);
  lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as HistoryLine);
});

const answers = ({ reply }: Ran, kind: string): boolean =>
  Array.isArray(reply) && reply[0] === kind;
const tells = ({ messages }: Ran, kind: string): boolean =>
  messages.some(([, text]) => text.startsWith(kind));

/** The rules that the history breaks when the first such step is changed. */
function rulesBrokenBy(isIt: (ran: Ran) => boolean, change: (ran: Ran) => Partial<Ran>): string[] {
  const index = lines.findIndex((line) => line.type === 'ran' && isIt(line));
  expect(index).not.toBe(-1);
  const forged = lines.map((line, i) =>
    i === index ? ({ ...line, ...change(line as Ran) } as HistoryLine) : line,
  );
  return [...new Set(replay(forged).map(({ rule }) => rule))];
}

describe('a batch', () => {
  /** What a process sends for these keys, and what it is answered. */
  const ran = (args: readonly string[], reply: readonly unknown[], keys = ['a', 'b']): Ran => ({
    ...{ at: 1, type: 'ran', by: 'p1', script: 'batch', micros: 1_000, messages: [] },
    keys: keys.flatMap((key) => [`lock:{${key}}`, `${key}:queue`, `${key}:fence`, `${key}:lapsed`]),
    listening: [],
    args,
    reply,
  });
  const [first, second] = [`${'a'.repeat(32)}:1`, `${'a'.repeat(32)}:2`];
  const both = ['bb', first, '1500', second, '1500'];
  const later = (reply: unknown): Ran => ({
    ...ran([`${'b'.repeat(32)}:1`, '1500', '1'], [], ['b']),
    script: 'acquire',
    reply,
    messages: Array.isArray(reply) ? [['inbox', `w ${second} b`]] : [],
  });

  it.each(['again', 'refused'])('changes nothing of a key for which it answers %s', (answer) => {
    const batch = ran(both, ['1000', [answer]]);
    expect(replay([batch, later('2000')])).toEqual([]);
    expect(replay([batch, later(['busy', 1_000, 0])])).toMatchObject([{ rule: 'as specified' }]);
  });

  it('has the lock of a key for which it answers a number', () => {
    const batch = ran(both, ['1000', '1000']);
    expect(replay([batch, later(['busy', 1_000, 0])])).toEqual([]);
    expect(replay([batch, later('2000')])).toMatchObject([{ rule: 'one holder at a time' }]);
  });
});

describe('a history of the simulator', () => {
  it('is allowed as it is', () => {
    expect(lines.filter(({ type }) => type === 'ran').length).toBeGreaterThan(50);
    expect(replay(lines)).toEqual([]);
  });

  it('in which a lock is granted that another process has is not', () => {
    const rules = rulesBrokenBy(
      (ran) => ran.script === 'acquire' && answers(ran, 'queued'),
      ({ args, micros }) => ({ reply: ['granted', args[0], micros, micros + 10_000, 0] }),
    );
    expect(rules).toEqual(['one holder at a time']);
  });

  it('in which the second waiter is granted the lock is not', () => {
    const rules = rulesBrokenBy(
      (ran) => tells(ran, 'g ') && tells(ran, 'h '),
      ({ messages }) => {
        const [grant = '', head = ''] = messages.map(([, text]) => text);
        const [first = '', second = ''] = [grant.split(' ')[1], head.split(' ')[1]];
        const [to] = messages.map(([channel]) => channel);
        return { messages: [[to ?? '', grant.replace(first, second)]] };
      },
    );
    expect(rules).toEqual(['first come, first served']);
  });

  it('in which a waiter is granted the lock that does not listen is not', () => {
    const rules = rulesBrokenBy(
      (ran) => tells(ran, 'g '),
      () => ({ listening: [] }),
    );
    expect(rules).toEqual(['a grant reaches a listener']);
  });

  it('in which a fencing number comes again is not', () => {
    const ofFreeLocks = lines.filter(
      (line): line is Ran => line.type === 'ran' && typeof line.reply === 'string',
    );
    const before = ({ at, keys: [key] }: Ran): Ran | undefined =>
      ofFreeLocks.find((ran) => ran.script === 'acquire' && ran.keys[0] === key && ran.at < at);
    const rules = rulesBrokenBy(
      (ran) => answers(ran, 'granted') && before(ran) !== undefined,
      (ran) => {
        const [kind, token, , ...rest] = ran.reply as unknown[];
        return { reply: [kind, token, before(ran)?.reply, ...rest] };
      },
    );
    expect(rules).toEqual(['fences rise']);
  });

  it('in which a token is used for another attempt is not', () => {
    const recheck = lines.find((line) => line.type === 'ran' && line.script === 'recheck') as Ran;
    const [token = '', , ...rest] = recheck.args;
    const other = lines.find(
      (line) => line.type === 'ran' && line.script === 'acquire' && line.args[0] !== token,
    ) as Ran;
    const rules = rulesBrokenBy(
      (ran) => ran.script === 'recheck',
      () => ({ args: [token, other.args[0] ?? '', ...rest] }),
    );
    expect(rules).toContain('one token, one tenure');
  });

  it('in which a release is accepted from a process that has lost the lock is not', () => {
    const rules = rulesBrokenBy(
      (ran) => ran.script === 'release' && answers(ran, 'lost'),
      () => ({ reply: ['released'] }),
    );
    expect(rules).toEqual(['as specified']);
  });

  it('in which a process enters without the lock is not', () => {
    const index = lines.findIndex(({ type }) => type === 'entered');
    const entered = lines[index] as Extract<HistoryLine, { type: 'entered' }>;
    const other = lines.find((line) => line.type === 'ran' && line.by !== entered.process) as Ran;
    const forged = lines.toSpliced(index + 1, 0, { ...entered, process: other.by, call: 'x' });
    expect(replay(forged)).toMatchObject([{ rule: 'one holder at a time', at: entered.at }]);
  });
});

describe('a release whose process takes the lock again', () => {
  it.each([
    [40, undefined],
    [60, 'first come, first served'],
  ])(
    'is judged by the place that it claims, %i, not by one that a late command left behind',
    (claimed, rule) => {
      const queue = [
        { token: 'other:1', place: 50 },
        { token: 'own:1', place: 90 },
      ];
      const before = { lock: { token: 'own:2', until: 1 }, queue, fence: 0, lapsedUntil: 0 };
      const after = { ...before, lock: { token: 'own:3', until: 1 } };
      const release = { kind: 'release', token: 'own:2', used: 0 } as const;
      const processOf = (token: string) => token.split(':')[0];
      expect(brokenBy(before, after, [], () => true, processOf, release, claimed)).toBe(rule);
    },
  );
});
