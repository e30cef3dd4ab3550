import { describe, expect, it } from '@jest/globals';
import { acquireScript } from '../../../libs/nestjs-locked/src/redis/scripts/acquire.lua.js';
import { acquireTogetherScript } from '../../../libs/nestjs-locked/src/redis/scripts/acquire-together.lua.js';
import { inspectScript } from '../../../libs/nestjs-locked/src/redis/scripts/inspect.lua.js';
import { leaveScript } from '../../../libs/nestjs-locked/src/redis/scripts/leave.lua.js';
import { probeScript } from '../../../libs/nestjs-locked/src/redis/scripts/probe.lua.js';
import { recheckScript } from '../../../libs/nestjs-locked/src/redis/scripts/recheck.lua.js';
import { releaseScript } from '../../../libs/nestjs-locked/src/redis/scripts/release.lua.js';
import { renewScript } from '../../../libs/nestjs-locked/src/redis/scripts/renew.lua.js';
import { revokeScript } from '../../../libs/nestjs-locked/src/redis/scripts/revoke.lua.js';

/** Those that read or change a lock by its rules. */
const LOCK_SCRIPTS = [
  acquireScript,
  acquireTogetherScript,
  recheckScript,
  releaseScript,
  leaveScript,
  renewScript,
  revokeScript,
];

describe('the comment at the head of a script', () => {
  const documented = /^-- (?:returns|\s+\|)\s+(.+)$/gm;
  const grantedForm = 'granted token fence blockEnd waiters';
  const queuedForm = 'queued token score pttl foreign';

  it.each([
    ['acquire', acquireScript, [grantedForm, queuedForm, 'busy pttl foreign', 'again']],
    [
      'acquire-together',
      acquireTogetherScript,
      [
        'granted, and for each lock { fence, blockEnd }',
        'busy, and for each lock { pttl, foreign }, or {} = this one was free',
        'again',
      ],
    ],
    ['recheck', recheckScript, [grantedForm, queuedForm.replace('token', 'newToken'), 'again']],
    ['release', releaseScript, ['released', 'lost', grantedForm, queuedForm, 'again']],
    ['leave', leaveScript, ['left', grantedForm, 'again']],
    ['revoke', revokeScript, ['1, or 0 if nobody held it']],
  ] as const)(
    'of %s names every reply that the tests of the script have seen',
    (_name, script, replies) => {
      const text = headOf(script.lua).replace(/with (?:a new token|take): /g, '| ');
      const named = [...text.matchAll(documented)].flatMap(([, forms = '']) => forms.split('|'));

      expect(named.map((form) => form.trim()).filter((form) => form !== '')).toEqual(replies);
    },
  );

  it.each(LOCK_SCRIPTS)(
    'of $name names every argument that the script reads, and no other',
    ({ lua }) => {
      const head = headOf(lua);
      const body = lua.replace(head, '');

      expect(head).toContain('ARGV inbox prefix, acceptMs, fenceKeepMs');
      expect(new Set([1, 2, 3, ...indexes(head, 'ARGV')])).toEqual(indexes(body, 'ARGV'));
      expect(head).toMatch(/^-- KEYS lock, queue, fence, lapsed /m);
      expect(body).toContain('lock, queue, fence, lapsed = unpack(KEYS, ');
      expect(indexes(body, 'KEYS')).toEqual(new Set());
    },
  );

  it('of probe, and of inspect, names every key and argument', () => {
    expect(indexes(probeScript.lua, 'KEYS')).toEqual(new Set([1, 2, 3]));
    expect(indexes(probeScript.lua, 'ARGV')).toEqual(new Set([1, 2]));
    expect(headOf(probeScript.lua)).toContain('KEYS lock, queue, fence of a key');
    expect(indexes(inspectScript.lua, 'KEYS')).toEqual(new Set([1, 2, 3, 5]));
    expect(headOf(inspectScript.lua)).toContain('KEYS lock, queue, fence, lapsed, label');
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
    const all = [...LOCK_SCRIPTS, inspectScript].flatMap(({ lua }) => commandsOf(lua));

    expect([...new Set(all)].filter((name) => !commandsOf(probeScript.lua).includes(name))).toEqual(
      [],
    );
  });

  function commandsOf(lua: string): string[] {
    return [...lua.matchAll(/(?:call|pcall|read)\('([A-Z]+)'/g)].map(([, name = '']) => name);
  }
});
