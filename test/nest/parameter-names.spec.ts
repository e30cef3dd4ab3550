import { describe, expect, it } from '@jest/globals';
import { runInThisContext } from 'node:vm';
import { LockKeyError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { compileLockedKey } from '../../libs/nestjs-locked/src/nest/decorator/compile-locked-key.js';
import {
  type DecoratedMethod,
  decoratedMethod,
} from '../../libs/nestjs-locked/src/nest/decorator/decorated-method.js';
import { KeyParam } from '../../libs/nestjs-locked/src/nest/decorator/key-param.decorator.js';
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
    expect(readParameters(method)).toMatchObject([{ name: 'id', isRest: false }]);
    const added = decoratedMethod(class {}.prototype, 'take', {
      value: function (id: string) {
        return id;
      },
    });
    expect(readParameters(added)).toMatchObject([{ name: 'id', isRest: false }]);
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
      expect(readParameters(decoratedMethod(target, 'take', { value: target.take }))).toMatchObject(
        [{ name: 'id', isRest: false }],
      );
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
    expect(() => key('stock:<name>')).toThrow(
      "Cannot bind <name> in 'stock:<name>' of Stock.take: its parameters are <0> id, <1> lines, <2> { sku }, <3> ...more; use one of these names or positions, @KeyParam('name') on the parameter, or a function",
    );
    const bare = methodOf(
      class Bare {
        async take() {
          return Promise.resolve();
        }
      },
    );
    expect(() => compileLockedKey('a:<id>', bare)).toThrow(
      'of Bare.take: the method has no parameters, and a key is built from them; add one, or use withLock of LockService inside the method',
    );
    const native = decoratedMethod(Stock.prototype, 'other', { value: parseInt });
    expect(() => compileLockedKey('a:<id>', native)).toThrow(
      "of Stock.other: the source of the method cannot be read; use its position such as <0>, @KeyParam('id')",
    );
  });

  it('refuses names of one letter, which a minifier may have moved to another parameter [D138]', () => {
    // As esbuild --minify writes `move(n, t)`: `<t>` would be the wrong argument.
    const minified = methodOf(compiled('class c{async take(t,i){return[t,i]}}'));
    for (const name of ['t', 'i', '_', '$']) {
      expect(() => compileLockedKey(`stock:<${name}>`, minified)).toThrow(
        `a name of one letter cannot be told from a minified one, which may be that of another parameter; use a longer name, its position such as <0>, @KeyParam('${name}')`,
      );
    }
    expect(() => compileLockedKey('stock:<id>', minified)).toThrow(
      'its parameters are <0> t, <1> i, as a minifier names them; keep parameter names, or use its position such as <0>',
    );
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
    // Two code units, and one letter.
    expect(() => compileLockedKey('stock:<𝒏>', plain)).toThrow('a name of one letter');
  });
});

describe('compileLockedKey: parameters without a name', () => {
  const take = (parameters: string): DecoratedMethod =>
    methodOf(compiled(`class Stock { async take(${parameters}) {} }`));

  it.each([
    ['{ id }', 'id', '<0.id>'],
    ['quantity, { id, name } = {}', 'id', '<1.id>'],
    ['{ id: productId }', 'productId', '<0.id>'],
    ['{ id: productId }', 'id', '<0.id>'],
    ["{ 'x-id': id }", 'id', '<0.x-id>'],
    ['{ order: { lines: [first, { sku = 1 }] } }', 'sku', '<0.order.lines.1.sku>'],
    ['[, second]', 'second', '<0.1>'],
    ['{ id, ...rest }', 'rest', '<0>'],
  ])('shows the path for (%s) and <%s>', (parameters, name, path) => {
    expect(() => compileLockedKey(`stock:<${name}>`, take(parameters))).toThrow(
      new RegExp(
        `^Cannot bind <${name}> in 'stock:<${name}>' of Stock\\.take: it is not a parameter, but a property of <\\d>, which is .+; write ${path}$`,
      ),
    );
    expect(() => compileLockedKey(`stock:${path}`, take(parameters))).not.toThrow();
  });

  it.each(['{ [name]: id }', '[...ids]', "{ 'a b': id }"])('shows no path into (%s)', (pattern) => {
    const bind = (): unknown => compileLockedKey('stock:<id>', take(pattern));
    expect(bind).toThrow(`its parameters are <0> ${pattern}; use one of these`);
  });

  it('shows the name given by @KeyParam', () => {
    class Orders {
      async take(@KeyParam('order') { sku }: { sku: string }, quantity: number) {
        return Promise.resolve([sku, quantity]);
      }
    }
    const bind = (): unknown => compileLockedKey('stock:<id>', methodOf(Orders));
    expect(bind).toThrow('its parameters are <order> { sku }, <1> quantity; use');
  });
});

describe('compileLockedKey: defaults of parameters', () => {
  class Stock {
    async take(id = 'main', { sku } = { sku: 'x' }) {
      return Promise.resolve([id, sku]);
    }
  }
  const key = (template: string, ...args: unknown[]): unknown =>
    compileLockedKey(template, methodOf(Stock))(args);

  it.each([
    ['stock:<id>', [], '<id>', "id = 'main'"],
    ['stock:<0>', [undefined], '<0>', "id = 'main'"],
    ['stock:<1.sku>', ['a'], '<1>', "{ sku } = { sku: 'x' }"],
  ])('are not seen by %p', (template, args, placeholder, parameter) => {
    expect(() => key(template, ...args)).toThrow(LockKeyError);
    expect(() => key(template, ...args)).toThrow(
      `Cannot build a lock key from '${template}' of Stock.take: ${placeholder} was left out, and its default in (${parameter}) is set when the method runs, after the key is built; pass it in the call, or use a function with the same default: @Locked((${parameter}) => …)`,
    );
  });

  it('are not mistaken for the reason if the argument is there', () => {
    expect(() => key('stock:<id>', null)).toThrow('<id> is null; pass a string');
    expect(key('stock:<id>', 'x')).toEqual(['stock:x']);
  });

  it('are seen by none of a bound name', () => {
    class Bound {
      async take(@KeyParam('id') other = 'main') {
        return Promise.resolve(other);
      }
    }
    expect(() => compileLockedKey('stock:<id>', methodOf(Bound))([])).toThrow('<id> was left out');
  });
});

describe('compileLockedKey: parameters that a bundler has renamed', () => {
  const key = (parameters: string, template: string, ...args: unknown[]): string =>
    compileLockedKey(
      template,
      methodOf(compiled(`class { async take(${parameters}) {} }`)),
    )(args).toString();

  it.each(['order2', 'order13', 'order1', 'order$1', 'order_1'])(
    'binds the only parameter, %s',
    (name) => expect(key(name, 'stock:<order.sku>', { sku: 'x' })).toBe('stock:x'),
  );

  it.each(['orders', 'order02', 'order2b', 'orderId', 'reorder2', 'orde2'])(
    'does not bind %s, which no bundler makes',
    (name) =>
      expect(() => key(name, 'stock:<order>', 'x')).toThrow(`its parameters are <0> ${name}; use`),
  );

  it.each([
    // The author may have had (order, order2), renamed the first, and forgotten the template.
    ['target, order2', '<order>', '<1>'],
    ['order2, quantity', '<order>', '<0>'],
    ['order2, order3', '<order>', '<0> or <1>'],
    ['order2, { order3 }', '<order>', '<0>'],
    // esbuild makes these of (order, order2).
    ['order2, order22', '<order2>', '<0> or <1>'],
    ['order$1, order$1$1', '<order$1>', '<0> or <1>'],
  ])('shows positions for (%s) and %s', (parameters, placeholder, positions) => {
    const name = placeholder.slice(1, -1);
    expect(() => key(parameters, `stock:${placeholder}`, 'x', 'y')).toThrow(
      `; a bundler seems to have renamed '${name}', because other code has that name; use its position, ${positions}, @KeyParam('${name}') on the parameter, or a function`,
    );
  });

  it('binds a name that no bundler makes, whatever the others are called', () => {
    expect(key('order2, order', 'stock:<order>', 'x', 'y')).toBe('stock:y');
    expect(key('item1, item10, item2', 'stock:<item2>', 'x', 'y', 'z')).toBe('stock:z');
  });

  it('binds a name with a number, unless another parameter may be its own', () => {
    expect(key('order, order2', 'stock:<order2>', 'x', 'y')).toBe('stock:y');
    expect(() => key('item1, item12', 'stock:<item1>', 'x')).toThrow('<0> or <1>');
  });
});
