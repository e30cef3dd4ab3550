import { describe, expect, it } from '@jest/globals';
import { fileURLToPath } from 'node:url';
import { choose } from '../choose.mjs';
import { misfits } from '../fit.mjs';
import { mutate } from '../mutate.mjs';
import { parseTable, readTable } from '../table.mjs';

const file = 'libs/nestjs-locked/src/core/lock.ts';

const SOURCE = `import { now } from './time.js';

const LONGEST_MS = 100;

/** Ends when now() says so. */
export class Lease {
  #endsAt = now();

  get leftMs(): number {
    return this.#endsAt - now(); // never more than LONGEST_MS
  }

  extend(ms: number): void {
    if (ms > LONGEST_MS) throw new RangeError('too long');
    this.#endsAt = Math.max(
      this.#endsAt,
      now() + ms,
    );
  }
}

export function isOver(lease: Lease): boolean {
  return lease.leftMs <= 0;
}
`;

const SCRIPT = `export const script = (keepMs: number) => \`
-- returns 1 if the key was ours
if redis.call('GET', KEYS[1]) == ARGV[1] then -- ours
  return redis.call('DEL', KEYS[1])
end
\`;
`;

function mutated(place: string, from: string, to: string, source = SOURCE): string {
  return mutate(source, { change: 'a change', file, in: place, from, to });
}

/** The lines that differ from the source. */
function changed(place: string, from: string, to: string): string[] {
  const before = SOURCE.split('\n');
  return mutated(place, from, to)
    .split('\n')
    .filter((line) => !before.includes(line))
    .map((line) => line.trim());
}

describe('a mutant', () => {
  it('changes the method that it names, and no other', () => {
    expect(changed('Lease.leftMs', 'now()', '0')).toEqual([
      'return this.#endsAt - 0; // never more than LONGEST_MS',
    ]);
    expect(changed('Lease.#endsAt', 'now()', '0')).toEqual(['#endsAt = 0;']);
  });

  it('changes a function, a constant or an import', () => {
    expect(changed('isOver', '<=', '<')).toEqual(['return lease.leftMs < 0;']);
    expect(changed('LONGEST_MS', '100', '1')).toEqual(['const LONGEST_MS = 1;']);
    expect(changed('./time.js', 'now', 'later as now')).toEqual([
      "import { later as now } from './time.js';",
    ]);
  });

  it('does not depend on comments, line breaks and trailing commas', () => {
    expect(changed('Lease.leftMs', 'now(); }', 'now() - 1; }')).toEqual([
      'return this.#endsAt - now() - 1; }',
    ]);
    expect(changed('Lease.extend', 'Math.max(this.#endsAt, now() + ms)', 'now()')).toEqual([
      'this.#endsAt = now();',
    ]);
  });

  it('reads ` ... ` in a pattern as whatever comes before the next part', () => {
    expect(mutated('Lease.extend', 'if (ms > ... ;', '')).toBe(
      SOURCE.replace("if (ms > LONGEST_MS) throw new RangeError('too long');", ''),
    );
  });

  it('changes a script, whatever its comments say', () => {
    const at = { change: 'a change', file: 'release.lua.ts', in: 'script' };
    const from = "if redis.call('GET', KEYS[1]) == ARGV[1] then return";
    expect(mutate(SCRIPT, { ...at, from, to: 'if true then return' })).toContain(
      "if true then return redis.call('DEL', KEYS[1])",
    );
    expect(() => mutate(SCRIPT, { ...at, from: 'ours', to: '' })).toThrow('there is no "ours"');
  });
});

describe('a mutant that does not fit', () => {
  it.each([
    [
      'a pattern that is somewhere else',
      ['isOver', 'RangeError', 'TypeError'],
      'there is no "RangeError" in isOver of libs/nestjs-locked/src/core/lock.ts; it stands in Lease.extend',
    ],
    [
      'a function that has another name now',
      ['isEnded', '<= 0', '< 0'],
      'there is no isEnded of libs/nestjs-locked/src/core/lock.ts; it stands in isOver',
    ],
    [
      'a pattern that is nowhere',
      ['isOver', '>= 0', '> 0'],
      'find what became of it, and change the table',
    ],
    [
      'a pattern that is there twice',
      ['Lease.extend', 'this.#endsAt', '0'],
      '"this.#endsAt" stands 2 times in Lease.extend',
    ],
    ['a change that changes nothing', ['isOver', '<= 0', '<=  0'], 'it changes nothing'],
  ])('says what to do: %s', (_, [place, from, to], message) => {
    expect(() => mutated(place!, from!, to!)).toThrow(message);
  });
});

describe('the table', () => {
  it('is read by source, rule, specs and change', () => {
    const text = `core/lock.ts
  # Comments and empty lines do not count.
  a lease ends [core/lease, redis/scripts/, orms/knex.cjs-spec.ts]

    Lease.leftMs: - now() ==>
    torture: --seconds 2
    Lease.extend: this.#endsAt,
      now()
      ==> 0
  time: it passes [core/clock]
    now: 1 ==> 2
`;
    const above = {
      file,
      rule: 'a lease ends',
      specs: ['test/core/lease.spec.ts', 'test/redis/scripts/', 'test/orms/knex.cjs-spec.ts'],
    };
    expect(parseTable(text, 'lock.txt')).toEqual([
      {
        ...above,
        change: 'Lease.leftMs: - now() ==>',
        in: 'Lease.leftMs',
        from: '- now()',
        to: '',
        torture: ['--seconds 2'],
      },
      {
        ...above,
        change: 'Lease.extend: this.#endsAt, now() ==> 0',
        in: 'Lease.extend',
        from: 'this.#endsAt, now()',
        to: '0',
        torture: [],
      },
      expect.objectContaining({ rule: 'time: it passes', specs: ['test/core/clock.spec.ts'] }),
    ]);
  });

  it.each([
    [
      'a change without a rule',
      'a.ts\n    a change\n',
      'lock.txt:2: a rule must stand above a change',
    ],
    [
      'a rule without specs',
      'a.ts\n  a rule\n    now: a ==> b\n',
      'lock.txt:3: a rule is followed by the specs that guard it, in brackets',
    ],
    [
      'a change without an arrow',
      'a.ts\n  a rule [a]\n    now: a => b\n',
      'lock.txt:3: a change is `declaration: old ==> new`',
    ],
    [
      'a line between two levels',
      'a.ts\n   a rule [a]\n',
      'lock.txt:2: indent by 0, 2 or 4 spaces',
    ],
  ])('says where it cannot be read: %s', (_, text, message) => {
    expect(() => parseTable(text, 'lock.txt')).toThrow(message);
  });
});

describe('the mutants of the library', () => {
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  const table = readTable();

  it('fit the sources, and name specs that exist', () => {
    expect(table).not.toEqual([]);
    expect(misfits(root, table)).toEqual([]);
  });

  it('that fit nowhere are told where else they would fit', () => {
    const moved = 'Gone.isSpentFor: SHORT_BUDGET_MS ==> 0';
    const text = `core/gone.ts\n  a rule [core/gone]\n    ${moved}\n`;
    expect(misfits(root, parseTable(text, 'lock.txt'))).toEqual([
      `${moved}: there is no test/core/gone.spec.ts; name the spec that sees it now`,
      `${moved}: there is no libs/nestjs-locked/src/core/gone.ts; it would fit HandoverBudget.isSpentFor in libs/nestjs-locked/src/core/queue/handover-budget.ts`,
    ]);
  });
});

describe('the choice of mutants', () => {
  const table = parseTable(
    ['core/lock.ts', 'redis/store.ts']
      .map(
        (file) => `${file}\n  rule of ${file} [a]\n    f: a ==> b\n  other [a]\n    f: b ==> c\n`,
      )
      .join(''),
    'lock.txt',
  );
  const chosen = (options: object): string[] => {
    const all = { only: [], file: [], shard: '1/1', torture: false, simulate: '0' };
    return choose(table, { ...all, ...options }).map(
      ({ file, change }) => `${file.split('/src/')[1]}, ${change}`,
    );
  };

  it.each([
    ['parts of rules', { only: ['of redis', 'of nest'] }, ['redis/store.ts, f: a ==> b']],
    ['changes', { only: ['b ==> c'], file: ['core/'] }, ['core/lock.ts, f: b ==> c']],
    [
      'parts of paths',
      { file: ['core/', 'nest/'] },
      ['core/lock.ts, f: a ==> b', 'core/lock.ts, f: b ==> c'],
    ],
    [
      'a share of them',
      { shard: '2/2' },
      ['core/lock.ts, f: b ==> c', 'redis/store.ts, f: b ==> c'],
    ],
    ['those that torture sees', { torture: true }, []],
  ])('is by %s', (_, options, expected) => {
    expect(chosen(options)).toEqual(expected);
  });

  it('is of those that are simulated', () => {
    const files = ['core/queue/a.ts', 'redis/scripts/b.ts', 'redis/c.ts', 'redis/cluster/d.ts'];
    const rules = [...files, 'nest/core/e.ts'].map(
      (file) => `${file}\n  rule [a]\n    f: a ==> b\n`,
    );
    const options = { only: [], file: [], shard: '1/1', torture: false, simulate: '100' };
    const simulated = choose(parseTable(rules.join(''), 'lock.txt'), options);
    expect(simulated.map(({ file }) => file.split('/src/')[1])).toEqual(files.slice(0, 3));
  });

  it('refuses a share that is none', () => {
    expect(() => chosen({ shard: '0/2' })).toThrow('--shard 0/2');
  });
});
