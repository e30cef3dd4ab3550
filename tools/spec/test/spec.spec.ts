/** The protocol holds what it promises within the bounds, and no rule of it can be left out. */
import { describe, expect, it } from '@jest/globals';
import { BOUNDS, BOUNDS_NAMES } from '../src/bounds.js';
import { explore } from '../src/explore.js';
import { MUTANTS } from '../src/mutants.js';
import { type Rule, RULES } from '../src/rules.js';

describe('the protocol', () => {
  it.each(BOUNDS_NAMES)('breaks no invariant within the bounds of: %s', (name) => {
    const { found, states } = explore(BOUNDS[name], 10_000);
    expect(found).toBeUndefined();
    expect(states).toBeGreaterThan(1_000);
  });

  it.each(Object.keys(RULES) as Rule[])('needs the rule: %s', (rule) => {
    const [within, invariant] = MUTANTS[rule];
    const { found } = explore(BOUNDS[within], 60_000, rule);
    expect(found?.invariant).toBe(invariant);
    expect(found?.trace.length).toBeGreaterThan(0);
  });
});
