import { describe, expect, it } from '@jest/globals';
import { LockScripts } from '../../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import type { RedisScript } from '../../../libs/nestjs-locked/src/redis/scripts/redis-script.js';

const scripts = new LockScripts({
  inCluster: false,
  inboxPrefix: 'lock:inbox:',
  acceptMs: 3_000,
  fenceKeepMs: 600_000,
});

/** The scripts that read or change a lock by its rules. */
const LOCK_SCRIPTS = [
  scripts.acquire,
  scripts.acquireTogether,
  scripts.recheck,
  scripts.release,
  scripts.leave,
  scripts.takeBack,
  scripts.renew,
  scripts.revoke,
  scripts.batch as RedisScript,
];

describe('the comment at the head of a script', () => {
  const documented = /^-- (?:returns|\s+\|)\s+(.+)$/gm;
  const grantedForm = 'granted token fence blockEnd waiters';
  const queuedForm = 'queued token score pttl foreign';

  it.each([
    ['acquire', scripts.acquire, ['fence', grantedForm, queuedForm, 'busy pttl foreign', 'again']],
    [
      'acquire-together',
      scripts.acquireTogether,
      [
        'granted, and for each lock { fence, blockEnd }',
        'busy, and for each lock { pttl, foreign }, or {} = this one was free',
        'again',
      ],
    ],
    ['recheck', scripts.recheck, [grantedForm, queuedForm.replace('token', 'newToken'), 'again']],
    ['release', scripts.release, ['released', 'lost', grantedForm, queuedForm, 'again']],
    ['leave', scripts.leave, [grantedForm, 'left', 'again']],
    ['take-back', scripts.takeBack, ["for each 'left', or the error", 'again']],
    [
      'revoke',
      scripts.revoke,
      ['the value, or nil if nobody held it, if it has just been taken away, or if others have it'],
    ],
  ] as const)(
    'of %s names every reply that the tests of the script have seen',
    (_name, script, replies) => {
      const text = headOf(script.lua).replace(/with a new token: /g, '| ');
      const named = [...text.matchAll(documented)].flatMap(([, forms = '']) => forms.split('|'));

      expect(named.map((form) => form.trim()).filter((form) => form !== '')).toEqual(replies);
    },
  );

  it.each(LOCK_SCRIPTS)(
    'of $name names every argument that the script reads, and no other',
    ({ lua }) => {
      const head = headOf(lua);
      const body = lua.replace(head, '');

      expect(indexes(head, 'ARGV')).toEqual(indexes(body, 'ARGV'));
      expect(head).toMatch(/^-- KEYS lock, queue, fence, lapsed\b/m);
      expect(body).toContain('lock, queue, fence, lapsed = unpack(KEYS, ');
    },
  );

  it('of probe, and of inspect, names every key and argument', () => {
    expect(indexes(scripts.probe.lua, 'KEYS')).toEqual(new Set([1, 2]));
    expect(indexes(scripts.probe.lua, 'ARGV')).toEqual(new Set([1, 2]));
    expect(headOf(scripts.probe.lua)).toContain('KEYS lock, queue of a key');
    expect(indexes(scripts.inspect.lua, 'KEYS')).toEqual(new Set([1, 2]));
    expect(indexes(scripts.inspect.lua, 'ARGV')).toEqual(new Set([1, 2]));
    expect(headOf(scripts.inspect.lua)).toContain('KEYS lock, queue · ARGV[1]');
  });

  /** The comment lines before the first line of code. */
  function headOf(lua: string): string {
    return /^\s*((?:--.*\n)+)/.exec(lua)?.[1] ?? '';
  }

  function indexes(text: string, what: 'ARGV' | 'KEYS'): Set<number> {
    const found = text.matchAll(new RegExp(`${what}\\[(\\d+)\\]`, 'g'));
    return new Set([...found].map(([, n]) => Number(n)));
  }
});

describe('the commands of the scripts', () => {
  it('are all tried by the probe', () => {
    const all = [...LOCK_SCRIPTS, scripts.inspect].flatMap(({ lua }) => commandsOf(lua));

    expect(
      [...new Set(all)].filter((name) => !commandsOf(scripts.probe.lua).includes(name)),
    ).toEqual([]);
  });

  function commandsOf(lua: string): string[] {
    return [...lua.matchAll(/\b(?:call|pcall|read)\('([A-Z]+)'/g)].map(([, name = '']) => name);
  }
});
