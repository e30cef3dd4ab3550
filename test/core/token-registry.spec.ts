import { describe, expect, it } from '@jest/globals';
import { introducedAt, labelOf } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import { TokenRegistry } from '../../libs/nestjs-locked/src/core/store/token-registry.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';

const PROCESS = 'a'.repeat(32);
const NOW = Date.UTC(2026, 0, 1);
const owner = { onMessage: () => {} };

function start() {
  let wall = NOW;
  const tokens = new TokenRegistry(PROCESS, { ...systemClock, wallNow: () => wall });
  return { introduce: tokens.introduce.bind(tokens), setClock: (to: number) => (wall = to) };
}

describe('a token', () => {
  it.each([false, true])('tells when it was introduced, if its process polls: %s', (polls) => {
    const { introduce } = start();
    const token = introduce(owner, polls, 'a label: 07');
    expect(introducedAt(token)).toEqual(new Date(NOW));
    expect(labelOf(token)).toBe('a label: 07');
    expect(introducedAt(`kept:${token}`)).toBeUndefined();
  });

  it('tells so however many a process introduces', () => {
    const { introduce } = start();
    const tokens = Array.from({ length: 5_000 }, () => introduce(owner));
    const ms = introducedAt(tokens.at(-1) as string)?.getTime();
    expect(ms).toBeLessThan(NOW + 10);
    expect(new Set(tokens).size).toBe(5_000);
  });

  it('is never used again, even if the clock of the process stands still or is set back', () => {
    const { introduce, setClock } = start();
    const tokens = Array.from({ length: 100 }, () => introduce(owner));
    setClock(NOW - 3_600_000);
    tokens.push(...Array.from({ length: 100 }, () => introduce(owner, true)));
    setClock(NOW + 1_000);
    const later = introduce(owner);
    expect(new Set([...tokens, later]).size).toBe(201);
    expect(introducedAt(later)).toEqual(new Date(NOW + 1_000));
  });
});
