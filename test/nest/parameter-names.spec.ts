import { describe, expect, it } from '@jest/globals';
import { runInThisContext } from 'node:vm';
import { compileLockedKey } from '../../libs/nestjs-locked/src/nest/decorator/compile-locked-key.js';
import {
  type DecoratedMethod,
  decoratedMethod,
} from '../../libs/nestjs-locked/src/nest/decorator/decorated-method.js';
import { readParameters } from '../../libs/nestjs-locked/src/nest/decorator/parameter-names.js';

type Class = abstract new () => object;

/** Compiled code, as the engine gets it. */
function compiled(source: string): Class {
  return runInThisContext(`(() => { const __name = (f) => f; return ${source} })()`) as Class;
}

function methodOf(type: Class, name: string | symbol = 'take'): DecoratedMethod {
  const target = type.prototype as object;
  return decoratedMethod(target, name, Object.getOwnPropertyDescriptor(target, name));
}

function namesOf(type: Class, name?: string | symbol): unknown {
  return readParameters(methodOf(type, name))?.map((parameter) =>
    parameter.isRest ? `...${parameter.name ?? '?'}` : (parameter.name ?? '?'),
  );
}

const dynamic = 'ta' + 'ke';
const symbol = Symbol('take');

describe('readParameters', () => {
  it('reads defaults with calls, destructuring and rest [D138]', () => {
    class Stock {
      async take(
        id: string,
        at = Date.now(),
        text = String(')'.repeat(2)) + `}${[1, ','].join()}`,
        { sku }: { sku?: string } = {},
        [first] = [1],
        pattern = /[)(,]/g,
        // (comment, with brackets
        ...rest: string[]
      ): Promise<unknown> {
        return Promise.resolve([id, at, text, sku, first, pattern, rest]);
      }
    }
    expect(namesOf(Stock)).toEqual(['id', 'at', 'text', '?', '?', 'pattern', '...rest']);
  });

  it('distinguishes methods from other members', () => {
    class Stock {
      static take(wrong: string): string {
        return wrong;
      }
      take = 1;
      #take(wrong: string): string {
        return wrong;
      }
      get other(): string {
        return this.#take('');
      }
      async get(id: string): Promise<string> {
        return Promise.resolve(id);
      }
      static get(wrong: string): string {
        return wrong;
      }
      async *async(sku: string): AsyncGenerator<string> {
        yield Promise.resolve(sku);
      }
      'a-b'(lit: string): string {
        return lit;
      }
      ['c'](computed: string): string {
        return computed;
      }
      1e3(num: string): string {
        return num;
      }
    }
    expect(namesOf(Stock, 'get')).toEqual(['id']);
    expect(namesOf(Stock, 'async')).toEqual(['sku']);
    expect(namesOf(Stock, 'a-b')).toEqual(['lit']);
    expect(namesOf(Stock, 'c')).toEqual(['computed']);
    expect(namesOf(Stock, '1000')).toEqual(['num']);
  });

  it('reads computed names from the method itself', () => {
    class Stock {
      async [dynamic](id: string): Promise<string> {
        return Promise.resolve(id);
      }
      async *[symbol](sku: string): AsyncGenerator<string> {
        yield Promise.resolve(sku);
      }
    }
    expect(namesOf(Stock)).toEqual(['id']);
    expect(namesOf(Stock, symbol)).toEqual(['sku']);
  });

  it('reads the class when another decorator replaced the method', () => {
    class Stock {
      async take(id: string): Promise<string> {
        return Promise.resolve(id);
      }
    }
    const replaced = { value: (...args: unknown[]) => args, configurable: true };
    Object.defineProperty(Stock.prototype, 'take', replaced);
    expect(namesOf(Stock)).toEqual(['id']);
  });

  it('reads object literals and functions put on a prototype', () => {
    const literal = {
      async take(id: string): Promise<string> {
        return Promise.resolve(id);
      },
    };
    const method = decoratedMethod(
      literal,
      'take',
      Object.getOwnPropertyDescriptor(literal, 'take'),
    );
    expect(readParameters(method)).toEqual([{ name: 'id', isRest: false }]);
    const added = decoratedMethod(class {}.prototype, 'take', {
      value: function (id: string) {
        return id;
      },
    });
    expect(readParameters(added)).toEqual([{ name: 'id', isRest: false }]);
  });

  it.each([
    [
      'tsc, ES2022',
      'class Stock { constructor(repo) { this.repo = repo; } repo; static { this.x = 1; } async take(id, quantity = this.repo.size()) { return id; } }',
    ],
    [
      'tsc, ES2017, with a private field',
      'class Stock { constructor() { _Stock_n.set(this, 1); } async take(id, quantity) { return __classPrivateFieldGet(this, _Stock_n, "f"); } }',
    ],
    [
      'tsc and swc, ES2016',
      'class Stock { take(id, quantity) { var _this = this; return _async_to_generator(function* () { return yield _this.repo.find(id); })(); } }',
    ],
    [
      'swc and esbuild, names kept',
      'class _Stock { static { __name(this, "Stock"); } async take(id, quantity) { return super.toString(id); } }',
    ],
    [
      'minified white space',
      'class o{repo;constructor(t){this.repo=t}async take(id,quantity=1){return this.repo.f(id,quantity)}}',
    ],
    [
      'with coverage counters',
      'class Stock { async take(id, quantity = (cov_1().b[0][0]++, f(1))) { cov_1().f[0]++; cov_1().s[1]++; return id; } }',
    ],
    [
      'await in a static initialiser',
      'class Stock { async take(id, quantity) {} static x = () => new.target; static async y() { await 1; } }',
    ],
    [
      'await as a name',
      'class Stock { async take(id, quantity) {} static y = function () { var a = 1; } }',
    ],
    [
      'a nested class that uses a private name of the one around it',
      '(class { #n = 1; static Stock = class { async take(id, quantity) { return (o) => o.#n; } }; }).Stock',
    ],
    ['extending', 'class extends Object { async take(id, quantity) { return super.valueOf(); } }'],
  ])('reads the output of %s', (_, source) => {
    expect(namesOf(compiled(source))).toEqual(['id', 'quantity']);
  });

  it('reads syntax that only modules, or only scripts, may contain', () => {
    // None of these can be evaluated here; what counts is that the source can be read.
    const withMeta = {
      toString: () => 'class Stock { async take(id) { return import.meta.url; } }',
    };
    const withAwait = {
      toString: () => 'class Stock extends (await base()) { async take(id) {} }',
    };
    const named = { toString: () => 'class Stock { async take(id) {} f() { var await; } }' };
    for (const source of [withMeta, withAwait, named]) {
      const type = Object.assign(function () {}, source);
      const target = { constructor: type, take: (...args: unknown[]) => args };
      expect(readParameters(decoratedMethod(target, 'take', { value: target.take }))).toEqual([
        { name: 'id', isRest: false },
      ]);
    }
  });

  it('gives up on functions without source', () => {
    const native = decoratedMethod(class {}.prototype, 'take', { value: parseInt });
    expect(readParameters(native)).toBeUndefined();
  });
});

describe('compileLockedKey', () => {
  class Stock {
    async take(id: string, lines: string[], { sku }: { sku: string }, ...more: string[]) {
      return Promise.resolve([id, lines, sku, more]);
    }
  }
  const take = methodOf(Stock);
  const key = (template: string, ...args: unknown[]): string =>
    [compileLockedKey(template, take)(args)].flat().join(' ');

  it('binds names, positions and rest parameters', () => {
    expect(key('a:<id>', 'x')).toBe('a:x');
    expect(key('a:<lines.1>', 'x', ['p', 'q'])).toBe('a:q');
    expect(key('a:<2.sku>', 'x', [], { sku: 's' })).toBe('a:s');
    expect(key('a:<more.1>', 'x', [], {}, 'm', 'n')).toBe('a:n');
    expect(key('a:<more[]>', 'x', [], {}, 'm', 'n')).toBe('a:m a:n');
    expect(() => key('a:<more>', 'x', [], {}, 'm')).toThrow('<more> is an array');
  });

  it('names the parameters found and the remedies', () => {
    expect(() => key('stock:<sku>')).toThrow(
      "Cannot bind <sku> in 'stock:<sku>' of Stock.take: its parameters are 'id', 'lines', 'more'; use one of them, its position such as <0>, @KeyParam('sku') on the parameter, or a function",
    );
    const bare = methodOf(
      class Bare {
        async take() {
          return Promise.resolve();
        }
      },
    );
    expect(() => compileLockedKey('a:<id>', bare)).toThrow(
      'of Bare.take: its parameters are without names; ',
    );
    const native = decoratedMethod(Stock.prototype, 'other', { value: parseInt });
    expect(() => compileLockedKey('a:<id>', native)).toThrow(
      'of Stock.other: its source cannot be read; ',
    );
  });

  it('refuses names of one letter, which a minifier may have moved to another parameter [D138]', () => {
    // As esbuild --minify writes `move(n, t)`: `<t>` would be the wrong argument.
    const minified = methodOf(compiled('class c{async take(t,i){return[t,i]}}'));
    for (const name of ['t', 'i', '_', '$']) {
      expect(() => compileLockedKey(`stock:<${name}>`, minified)).toThrow(
        `a name of one letter cannot be told from a minified one; use a longer name, its position such as <0>, @KeyParam('${name}')`,
      );
    }
    expect(() => compileLockedKey('stock:<id>', minified)).toThrow("its parameters are 't', 'i'");
    expect(compileLockedKey('stock:<1>', minified)(['a', 'b'])).toEqual(['stock:b']);
  });

  it('also refuses one letter in code that is not minified', () => {
    const plain = methodOf(
      class Move {
        async take(n: string) {
          return Promise.resolve(n);
        }
      },
    );
    expect(() => compileLockedKey('stock:<n>', plain)).toThrow('a name of one letter');
    expect(compileLockedKey('stock:<0.n>', plain)([{ n: 1 }])).toEqual(['stock:1']);
  });
});
