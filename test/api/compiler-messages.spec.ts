import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { join } from 'node:path';
import { ROOT } from './markdown.js';
import { TemporaryProject } from './temporary-project.js';

const ASYNC =
  '@Locked makes the call asynchronous: declare the method async, or return an Observable or async iterable';
const CLASS =
  '@Locked belongs on each method that needs the lock, not on the class or its constructor';
const KEY = "@Locked takes a key, and then options: @Locked('stock:<id>', { waitMs: 0 })";
const TIME = 'The lease is renewed while the method runs, so it needs no time: @Locked(key)';
const LIST = "Several keys are a list, and options an object: @Locked(['a', 'b'], { waitMs: 0 })";
const PARAMETER = "@KeyParam belongs on a parameter: async take(@KeyParam('id') id: string)";
/** What a decorator is put on wrongly, and the sentence with which the compiler must end. */
const MISUSES: readonly (readonly [what: string, member: string, sentence: string])[] = [
  ['a method that returns a plain value', `@Locked('k') m(): number { return 1; }`, ASYNC],
  ['a method that returns nothing', `@Locked('k') m(): void {}`, ASYNC],
  ['a generator', `@Locked('k') *m(): Generator<number> { yield 1; }`, ASYNC],
  [
    'a plain value, with a key function',
    `@Locked((id: string) => lockKey\`k:\${id}\`) m(id: string) { return id; }`,
    ASYNC,
  ],
  [
    'a plain value, with the type of the method',
    `@Locked<M['m']>((id) => lockKey\`k:\${id}\`) m(id: string): string { return id; }`,
    ASYNC,
  ],
  [
    'a property',
    `@Locked('k') m = async () => {};`,
    '@Locked belongs on a method, and this is a property: write it as a method, async name() { … }',
  ],
  [
    'a getter',
    `@Locked('k') get m() { return 1; }`,
    '@Locked belongs on a method, and this is an accessor: write it as a method, async name() { … }',
  ],
  [
    'a static method',
    `@Locked('k') static async m() {}`,
    '@Locked belongs on an instance method: a class gets no LockService injected',
  ],
  [
    'a parameter',
    `async m(@Locked('k') id: string) { return id; }`,
    '@Locked belongs on the method; on its parameter, write @KeyParam',
  ],
  ['a parameter of the constructor', `constructor(@Locked('k') readonly id: string) {}`, CLASS],
  [
    'a key function with another parameter',
    `@Locked((id: number) => lockKey\`k:\${id}\`) async m(id: string) { return id; }`,
    'The key function must take the parameters of the method, in their order: the last ones may be left out',
  ],
  [
    'a key function with more parameters',
    `@Locked((id: string, n: number) => lockKey\`k:\${id}:\${n}\`) async m(id: string) { return id; }`,
    'The key function must take the parameters of the method, in their order: the last ones may be left out',
  ],
  [
    'skipping a method that never returns undefined',
    `@Locked('k', { onBusy: 'skip' }) async m(): Promise<string> { return ''; }`,
    "With onBusy: 'skip' the result is undefined while somebody else has the lock: declare it, as in Promise<Result | undefined>",
  ],
  [
    'an onBusy of another type',
    `@Locked('k', { onBusy: () => 5 }) async m(): Promise<string> { return ''; }`,
    'onBusy must return what the method returns',
  ],
  [
    'the type of another method',
    `@Locked<M['other']>((id) => lockKey\`k:\${id}\`) async m(id: number) { return id; } async other(id: string) { return id; }`,
    '@Locked<…> names another method than the one below it',
  ],
  ['a time first, as with murlock', `@Locked(5000, 'id') async m(id: string) { return id; }`, KEY],
  ['an object first', `@Locked({ key: 'k' }) async m() {}`, KEY],
  ['options without a key', `@Locked({ waitMs: 0 }) async m() {}`, KEY],
  ['null as the key', `@Locked(null) async m() {}`, KEY],
  [
    'a key function that returns a Promise',
    `@Locked(async (id: string) => lockKey\`k:\${id}\`) async m(id: string) { return id; }`,
    'The key function must return a key or a list of keys, and not a Promise',
  ],
  [
    'a key function that returns a number',
    `@Locked((id: number) => id) async m(id: number) { return id; }`,
    'The key function must return a key or a list of keys, and not a Promise',
  ],
  ['a time after the key', `@Locked('k', 5000) async m() {}`, TIME],
  ['a second key', `@Locked('a', 'b') async m() {}`, LIST],
  ['a second list', `@Locked(['a'], ['b']) async m() {}`, LIST],
  ['@KeyParam on a method', `@KeyParam('id') async m() {}`, PARAMETER],
  ['@KeyParam on a property', `@KeyParam('id') m = 1;`, PARAMETER],
  [
    '@KeyParam in the constructor',
    `constructor(@KeyParam('id') readonly id: string) {}`,
    '@KeyParam belongs on a parameter of a method, not of the constructor',
  ],
  [
    '@KeyParam in a static method',
    `static async m(@KeyParam('id') id: string) { return id; }`,
    '@KeyParam belongs on a parameter of an instance method',
  ],
];

const ORDER = 'The options come before the work: withLock(key, options, work)';
/** The same for calls of `withLock`. */
const CALLS: readonly (readonly [what: string, call: string, sentence: string])[] = [
  ['options after the work', `locks.withLock('k', async () => 1, { waitMs: 5 })`, ORDER],
  ['options after work that takes the lock', `locks.withLock('k', (lock) => lock.key, {})`, ORDER],
  [
    'a time before the work, as with redlock',
    `locks.withLock(['k'], 5000, async () => 1)`,
    'The lease is renewed while the work runs, so it needs no time: withLock(key, work)',
  ],
];

const project = new TemporaryProject();
/** The lines of the first error in each file. */
const errors = new Map<string, string[]>();

beforeAll(async () => {
  project.link('nestjs-locked', '@types/node', 'rxjs');
  const imports = `import { KeyParam, Locked, lockKey, type LockService } from 'nestjs-locked';\nvoid [KeyParam, Locked, lockKey];\n`;
  const files = MISUSES.map(([, member], index) =>
    project.write(`m${index}.ts`, `${imports}export class M {\n  ${member}\n}\n`),
  );
  CALLS.forEach(([, call], index) => {
    const method = `m(locks: LockService) { return ${call}; }`;
    files.push(project.write(`c${index}.ts`, `${imports}export class M { ${method} }\n`));
  });
  const unknown = `m(locks: LockService) { return locks.withLock('k', { waitMs: 5, ttl: 5 }, () => 1); }`;
  files.push(project.write('unknown.ts', `${imports}export class M { ${unknown} }\n`));
  const ofLocked = `@Locked('k', { waitMs: 5, ttl: 5 }) async m() {}`;
  files.push(project.write('option.ts', `${imports}export class M { ${ofLocked} }\n`));
  files.push(project.write('class.ts', `${imports}@Locked('k')\nexport class M {}\n`));
  files.push(project.write('bare.ts', `${imports}export class M { @Locked async m() {} }\n`));
  project.write('package.json', { type: 'module' });
  project.write('tsconfig.json', {
    extends: join(ROOT, 'tsconfig.base.json'),
    compilerOptions: {
      noEmit: true,
      composite: false,
      incremental: false,
      declaration: false,
      declarationMap: false,
    },
    files,
  });
  const { stdout } = await project.tsc('-p', '.');
  for (const error of stdout.split(/\n(?=\S)/)) {
    const [, file = ''] = /^(\w+)\.ts\(/.exec(error) ?? [];
    if (!errors.has(file)) errors.set(file, error.trimEnd().split('\n'));
  }
});
afterAll(() => project.remove());

it.each(MISUSES.map(([what, , sentence], index) => [what, `m${index}`, sentence] as const))(
  'the compiler ends with a sentence for %s',
  (_, file, sentence) => expectLast(file, sentence),
);

it.each(CALLS.map(([what, , sentence], index) => [what, `c${index}`, sentence] as const))(
  'the compiler ends with a sentence for withLock with %s',
  (_, file, sentence) => expectLast(file, sentence),
);

it('the compiler ends with a sentence for an unknown option of withLock, at the option', () =>
  expect(errors.get('unknown')).toEqual([
    expect.stringContaining('No overload matches this call.'),
    '  The last overload gave the following error.',
    `    Type 'number' is not assignable to type '"'ttl' is no option: waitMs limits the wait, maxHoldMs the work; the lease is renewed and needs no time"'.`,
  ]));

it('the compiler ends with a sentence for an unknown option of @Locked', () =>
  expect(errors.get('option')?.at(-1)).toContain("'ttl' is no option of @Locked: waitMs limits"));

it('the compiler ends with a sentence for a class', () => expectLast('class', CLASS));

it('the compiler ends with a sentence for @Locked without parentheses', () =>
  expectLast('bare', KEY));

function expectLast(file: string, sentence: string): void {
  const last = errors.get(file)?.at(-1);
  expect(last?.trim()).toMatch(
    /^Argument of type '.+' is not assignable to parameter of type '.+'/,
  );
  expect(last).toContain(`parameter of type '"${sentence}"'.`);
}
