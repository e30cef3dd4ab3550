import { describe, expect, it } from '@jest/globals';
import { applyDecorators, SetMetadata } from '@nestjs/common';
import { lockKey } from '../../libs/nestjs-locked/src/core/keys/lock-key.js';
import { LockConfigError, LockKeyError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { KeyParam } from '../../libs/nestjs-locked/src/nest/decorator/key-param.decorator.js';
import { lockServiceToken } from '../../libs/nestjs-locked/src/nest/decorator/lock-service.token.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import type { LockedOptions } from '../../libs/nestjs-locked/src/nest/decorator/locked.options.js';
import {
  LOCKED_METHOD,
  type LockedMethodInfo,
} from '../../libs/nestjs-locked/src/nest/decorator/locked-methods.registry.js';
import { RecordingLocks } from './recording-locks.js';

import 'reflect-metadata';

type LooseDecorator = (target: unknown, name?: unknown, descriptor?: unknown) => void;
/** The decorator without its types, as code that is not type-checked uses it. */
const looselyLocked = (key: unknown, options?: unknown): LooseDecorator =>
  (Locked as (key: unknown, options?: unknown) => unknown)(key, options) as LooseDecorator;

/** As another library's decorator does: replaces the method and loses its parameter names. */
function Wrapped(): MethodDecorator {
  return (_target, _name, descriptor: PropertyDescriptor) => {
    const method = descriptor.value as (...args: unknown[]) => unknown;
    descriptor.value = function (this: unknown, ...args: unknown[]) {
      return Reflect.apply(method, this, args);
    };
  };
}

function infoOf(method: object): LockedMethodInfo {
  return Reflect.get(method, LOCKED_METHOD) as LockedMethodInfo;
}

describe('@Locked: keys', () => {
  class Stock {
    @Locked('stock:<id>')
    async take(id: string | number, quantity = 1) {
      return Promise.resolve(`${id} ${quantity}`);
    }

    @Locked((id: string) => lockKey`stock:${id}`)
    async put(id: string, quantity: number) {
      return Promise.resolve(`${id} ${quantity}`);
    }

    @Locked('stock:<id>')
    async count(id = 'all') {
      return Promise.resolve(id);
    }

    @Wrapped()
    @Locked('stock:<id>')
    async below(id: string) {
      return Promise.resolve(id);
    }

    @Locked('stock:<id>')
    @Wrapped()
    async above(id: string) {
      return Promise.resolve(id);
    }
  }

  it('come from the arguments, and the method runs with them', async () => {
    const locks = new RecordingLocks();
    const stock = locks.give(new Stock());
    await expect(stock.take('a:b')).resolves.toBe('a:b 1');
    await expect(stock.take(7, 2)).resolves.toBe('7 2');
    await expect(stock.put('x', 3)).resolves.toBe('x 3');
    expect(locks.keys).toEqual(['stock:a%3Ab', 'stock:7', 'stock:x']);
  });

  it('are built from arguments as they were passed: default values of parameters are not applied', async () => {
    const locks = new RecordingLocks();
    const stock = locks.give(new Stock());
    await expect(stock.count()).rejects.toThrow(LockKeyError);
    expect(locks.keys).toEqual([]);
    await expect(stock.count('a')).resolves.toBe('a');
    expect(locks.keys).toEqual(['stock:a']);
  });

  it('are found although another decorator replaced the method, above or below', async () => {
    const locks = new RecordingLocks();
    const stock = locks.give(new Stock());
    await stock.below('b');
    await stock.above('a');
    expect(locks.keys).toEqual(['stock:b', 'stock:a']);
  });
});

describe('@Locked: several keys', () => {
  class Accounts {
    @Locked(['account:<from>', 'account:<to>'])
    async transfer(from: string, to: string) {
      return Promise.resolve([from, to]);
    }

    @Locked('stock:<skus[]>')
    async order(skus: string[]) {
      return Promise.resolve(skus);
    }

    @Locked((ids: string[]) => ids.map((id) => lockKey`stock:${id}`))
    async list(ids: string[]) {
      return Promise.resolve(ids);
    }
  }

  it('come from lists of templates, lists of values, and functions', async () => {
    const locks = new RecordingLocks();
    const accounts = locks.give(new Accounts());
    await accounts.transfer('a', 'b');
    await accounts.order(['x', 'y']);
    await accounts.list(['p', 'q']);
    expect(locks.calls.map(({ keys }) => keys)).toEqual([
      ['account:a', 'account:b'],
      ['stock:x', 'stock:y'],
      ['stock:p', 'stock:q'],
    ]);
  });

  it('are never none [D136]', async () => {
    const locks = new RecordingLocks();
    const accounts = locks.give(new Accounts());
    await expect(accounts.order([])).rejects.toThrow('<skus[]> has no elements');
    await expect(accounts.list([])).rejects.toThrow('it returned an empty list');
    expect(locks.calls).toEqual([]);
  });
});

describe('@Locked: decoration', () => {
  it('keeps name, length, properties and all metadata, its own and that of its parameters [D146]', () => {
    const mark = Symbol('mark');
    const Marked = (): MethodDecorator => (_target, _name, descriptor) => {
      Object.assign(descriptor.value as object, { [mark]: 'kept' });
    };
    class Stock {
      @SetMetadata('above', 1)
      @Locked('stock:<id>')
      @SetMetadata('below', { deep: true })
      @Marked()
      async take(id: string, _quantity: number) {
        return Promise.resolve(id);
      }
    }
    const take = Object.getOwnPropertyDescriptor(Stock.prototype, 'take')?.value as object;
    expect(['name', 'length', mark].map((key) => Reflect.get(take, key) as unknown)).toEqual([
      'take',
      2,
      'kept',
    ]);
    expect(Reflect.getMetadata('above', take)).toBe(1);
    expect(Reflect.getMetadata('below', take)).toEqual({ deep: true });
    expect(Reflect.getMetadata('design:paramtypes', Stock.prototype, 'take')).toEqual([
      String,
      Number,
    ]);
  });

  it('injects each service once per class, and not again in a subclass', () => {
    class Base {
      @Locked('a') async one() {}
      @Locked('b') async two() {}
    }
    class Sub extends Base {
      @Locked('c') async three() {}
      @Locked('d', { service: 'billing' }) async four() {}
    }
    class Plain extends Base {
      @Locked('e') async five() {}
    }
    const asked = (type: object): unknown[] =>
      (
        Reflect.getOwnMetadata('self:properties_metadata', type) as { type: symbol }[] | undefined
      )?.map(({ type }) => type) ?? [];
    expect(asked(Base)).toEqual([lockServiceToken()]);
    expect(asked(Sub)).toEqual([lockServiceToken(), lockServiceToken('billing')]);
    expect(asked(Plain)).toEqual([]);
  });

  it('leaves a description on the wrapper', () => {
    class Billing {
      @Locked('invoice:<id>', { service: 'billing' })
      async pay(id: string) {
        return Promise.resolve(id);
      }
      @Locked(() => 'all')
      async all() {
        return Promise.resolve();
      }
    }
    const pay = Object.getOwnPropertyDescriptor(Billing.prototype, 'pay')?.value as object;
    expect(infoOf(pay)).toEqual({
      className: 'Billing',
      name: 'pay',
      template: 'invoice:<id>',
      service: 'billing',
      kind: 'undeclared',
      wrapper: pay,
    });
    const all = Object.getOwnPropertyDescriptor(Billing.prototype, 'all')?.value as object;
    expect(infoOf(all).template).toBeUndefined();
  });

  it('may be applied twice to a method, whatever that returns', async () => {
    class Stock {
      @Locked('invoice:<id>', { service: 'billing' })
      @Locked('stock:<id>')
      async *each(id: string) {
        yield Promise.resolve(id);
      }
    }
    const locks = new RecordingLocks();
    const stock = locks.give(locks.give(new Stock()), 'billing');
    for await (const id of stock.each('a')) locks.events.push(id);
    expect(locks.events).toEqual([
      'lock invoice:a',
      'lock stock:a',
      'a',
      'unlock stock:a',
      'unlock invoice:a',
    ]);
  });

  it('works inside applyDecorators', async () => {
    const Exclusive = (template: string): MethodDecorator & ClassDecorator =>
      applyDecorators(Locked(template), SetMetadata('exclusive', template));
    class Stock {
      @Exclusive('stock:<id>')
      async take(id: string) {
        return Promise.resolve(id);
      }
    }
    const locks = new RecordingLocks();
    await locks.give(new Stock()).take('a');
    expect(locks.keys).toEqual(['stock:a']);
    const take = Object.getOwnPropertyDescriptor(Stock.prototype, 'take')?.value as object;
    expect(Reflect.getMetadata('exclusive', take)).toBe('stock:<id>');
  });

  it('passes the options on, without its own', async () => {
    class Stock {
      @Locked('stock:<id>', { waitMs: 0, leaseMs: 5000, returns: 'promise', service: 'billing' })
      async take(id: string) {
        return Promise.resolve(id);
      }
    }
    const locks = new RecordingLocks();
    await locks.give(new Stock(), 'billing').take('a');
    expect(locks.calls).toEqual([{ keys: ['stock:a'], options: { waitMs: 0, leaseMs: 5000 } }]);
  });

  class Target {
    get total(): number {
      return 1;
    }
    static async take(): Promise<void> {}
    async take(id: string) {
      return Promise.resolve(id);
    }
    *each(): Generator<number> {
      yield 1;
    }
  }
  const descriptorOf = (name: string): unknown =>
    Object.getOwnPropertyDescriptor(Target.prototype, name);

  it.each<[string, unknown[], string]>([
    [
      'a getter',
      [Target.prototype, 'total', descriptorOf('total')],
      'Target.total: it is an accessor',
    ],
    [
      'a static method',
      [Target, 'take', Object.getOwnPropertyDescriptor(Target, 'take')],
      'Target.take: it is static, and a class gets no LockService injected',
    ],
    ['a property (tsc)', [Target.prototype, 'arrow', undefined], 'Target.arrow: it is a property'],
    [
      'a property (swc)',
      [Target.prototype, 'arrow', { initializer: () => () => {}, writable: true }],
      'Target.arrow: it is a property, not a method',
    ],
    [
      'anything but a function',
      [Target.prototype, 'take', { value: 42 }],
      'Target.take: it is a property',
    ],
    [
      'a generator',
      [Target.prototype, 'each', descriptorOf('each')],
      'Target.each: it is a generator',
    ],
    [
      'a parameter',
      [Target.prototype, 'take', 0],
      "Target.take: it is on parameter <0>; put it on the method, and @KeyParam('name') on the parameter",
    ],
    ['a class', [Target], 'Cannot apply @Locked to Target: it can only be used on methods'],
    [
      'a TC39 decorator',
      [() => {}, { kind: 'method', name: 'take', static: false }],
      'set "experimentalDecorators": true in tsconfig.json',
    ],
  ])('refuses %s', (_, args, message) => {
    const [target, name, descriptor] = args;
    const decorate = (): void => looselyLocked('key')(target, name, descriptor);
    expect(decorate).toThrow(LockConfigError);
    expect(decorate).toThrow(message);
  });

  it.each<[string, unknown, unknown, string]>([
    ['a short lease', 'k', { leaseMs: 10 }, 'Invalid option leaseMs: 10'],
    ['a negative wait', 'k', { waitMs: -1 }, 'Invalid option waitMs: -1'],
    ['a signal', 'k', { signal: AbortSignal.abort() }, 'a signal would be shared by all calls'],
    ['an unknown kind', 'k', { returns: 'array' }, "returns is 'array'; use one of 'promise', "],
    ['a kind that is no text', 'k', { returns: {} }, 'returns is an object; use one of'],
    ['a nameless service', 'k', { service: '' }, "Invalid lock service name: ''"],
    ['no object', 'k', null, 'the second argument is null, and must be an object'],
    [
      'no templates',
      [],
      {},
      "Cannot apply @Locked to Target.take: its key is an empty list; write a template such as @Locked('stock:<id>'), a list of templates, or a function",
    ],
    [
      'nothing',
      undefined,
      {},
      'Cannot apply @Locked to Target.take: its key is undefined (undefined may come from a circular import)',
    ],
    ['a wrong name', 'stock:<sku>', {}, 'its parameters are <0> id'],
    [
      'an unknown option',
      'k',
      { ttl: 5000 },
      "@Locked on Target.take: Unknown option 'ttl': did you mean 'leaseMs'?",
    ],
    ['an option in another spelling', 'k', { onbusy: 'skip' }, "did you mean 'onBusy'?"],
    [
      'an option of the module',
      'k',
      { lingerMs: 5 },
      "Unknown option 'lingerMs': it is an option of the module",
    ],
    [
      'a route in place of a template',
      'stock/:id',
      {},
      "Invalid key template 'stock/:id' of Target.take: ':id' is not filled in, so that all calls would share one lock; write 'stock/<id>'",
    ],
    ['this', 'stock:<this.id>', {}, 'Cannot bind <this> in'],
    [
      'a position beyond the parameters',
      'stock:<1>',
      {},
      "Cannot bind <1> in 'stock:<1>' of Target.take: it has 1 parameter, and positions begin with 0",
    ],
  ])('refuses %s', (_, key, options, message) => {
    const decorate = (): void =>
      looselyLocked(key, options)(Target.prototype, 'take', descriptorOf('take'));
    expect(decorate).toThrow(LockConfigError);
    expect(decorate).toThrow(message);
  });

  describe('the name of a parameter in the syntax of another language', () => {
    const decorated = (template: string) => (): unknown => {
      class Stock {
        @Locked(template)
        async take(
          id: string,
          order: unknown,
          @KeyParam('count') n: number,
          $raw: string,
          { price }: { price: number },
        ) {
          return Promise.resolve([id, order, n, $raw, price]);
        }
      }
      return Stock;
    };

    it.each([
      ['stock:#id', '#id', 'stock:<id>'],
      ['stock:$id', '$id', 'stock:<id>'],
      ['stock:@id', '@id', 'stock:<id>'],
      ['stock:%id', '%id', 'stock:<id>'],
      ['stock::id', ':id', 'stock:<id>'],
      ['stock:[id]', '[id]', 'stock:<id>'],
      ['stock:(id)', '(id)', 'stock:<id>'],
      ['#id', '#id', '<id>'],
      ['stock:#order.sku:price', '#order.sku', 'stock:<order.sku>:price'],
      ['stock:<order.sku>:#id', '#id', 'stock:<order.sku>:<id>'],
      ['stock:#count', '#count', 'stock:<count>'],
      ['stock:id', 'id', 'stock:<id>'],
      ['stock:#id:$order.sku', '#id', 'stock:<id>:<order.sku>'],
    ])('is refused: %s', (template, name, meant) => {
      expect(decorated(template)).toThrow(LockConfigError);
      expect(decorated(template)).toThrow(
        `Invalid key template '${template}' of Stock.take: '${name}' is not filled in, so that all calls would share one lock; write '${meant}', or another text if no value is meant`,
      );
      expect(decorated(meant)).not.toThrow();
    });

    it.each(['$1', '?', '?0', ':0', '#p0', '#a0', '#args[0]', 'arguments[0]'])(
      'is refused as a position: %s',
      (position) => {
        expect(decorated(`stock:${position}`)).toThrow(
          `'${position}' is not filled in, so that all calls would share one lock; write a placeholder such as <id> or <0>, or another text if no value is meant`,
        );
        expect(decorated(`stock:${position}:<id>`)).not.toThrow();
      },
    );

    it('is refused for a parameter that is taken out of its argument', () => {
      expect(decorated('stock:#price')).toThrow("'#price' is not filled in");
    });

    it.each([
      'stock:id:all',
      'stock:count',
      'stock:otherId',
      'stock:#ids',
      'stock:#1',
      'price:$10',
      'really?',
      'stock:#id-list',
      'stock:[id',
      'stock:[id and order]',
      'stock:a#id',
      'stock:#sku',
      'stock:#n',
      'stock:#id:<id>',
      'stock:<$raw>',
    ])('is not seen in: %s', (template) => {
      expect(decorated(template)).not.toThrow();
    });
  });

  it.each([Boolean, Number, String, Array])(
    'refuses a method whose declared result cannot be awaited: %p',
    (type) => {
      class Stock {
        isFree(): unknown {
          return true;
        }
      }
      Reflect.defineMetadata('design:returntype', type, Stock.prototype, 'isFree');
      const decorate = (options = {}): void => {
        const decorator = Locked('stock', options) as (...args: unknown[]) => void;
        const { prototype } = Stock;
        decorator(prototype, 'isFree', Object.getOwnPropertyDescriptor(prototype, 'isFree'));
      };
      expect(decorate).toThrow(
        'Cannot apply @Locked to Stock.isFree: it is declared to return a plain value, and a locked call returns a Promise; make it async',
      );
      expect(() => decorate({ returns: 'promise' })).not.toThrow();
      Reflect.defineMetadata('design:returntype', Object, Stock.prototype, 'isFree');
      expect(decorate).not.toThrow();
    },
  );

  it('refuses to be used without parentheses', () => {
    const decorate = (): unknown =>
      (Locked as unknown as (...args: unknown[]) => unknown)(
        Target.prototype,
        'take',
        descriptorOf('take'),
      );
    expect(decorate).toThrow(LockConfigError);
    expect(decorate).toThrow(
      "Cannot apply @Locked to Target.take: it has no key; write @Locked('stock:<id>')",
    );
  });

  it.each<[string, unknown[], string]>([
    [
      'murlock: a time and a path',
      [5000, 'order.sku'],
      "its first argument is 5000, and not a key; the lease is renewed while the method runs, so it needs no time: write @Locked('Target:take:<order.sku>')",
    ],
    [
      'murlock: a time, a wait and two paths',
      [5000, 1000, 'id', '0.sku'],
      "write @Locked('Target:take:<id>:<0.sku>', { waitMs: 1000 })",
    ],
    ['murlock: a time alone', [5000], "write @Locked('Target:take')"],
    [
      'a key and a duration',
      ['stock', 5000],
      'its second argument is 5000, and not an object of options; the lease is renewed while the method runs, so it needs no time; to change how long it lasts after a crash, write { leaseMs: 5000 }',
    ],
    ['keys and a duration', [['a', 'b'], 5000, { retryCount: 3 }], 'write { leaseMs: 5000 }'],
    ['a function and a duration', [() => 'k', 5000], 'write { leaseMs: 5000 }'],
    [
      'an object with the key',
      [{ key: 'stock:<id>', ttl: 5000 }],
      "its first argument is an object, and not a key; write the key first, and then the options: @Locked('stock:<id>', { waitMs: 0 })",
    ],
    ['options without a key', [{ waitMs: 0 }], "@Locked('stock:<id>', { waitMs: 0 })"],
    [
      'keys as arguments',
      ['account:<from>', 'account:<to>'],
      "its second argument is 'account:<to>', and not an object of options; write several keys as a list, @Locked(['account:<from>', 'account:<to>']), and a parameter in angle brackets",
    ],
    [
      'a third argument',
      ['stock', { waitMs: 0 }, { leaseMs: 5000 }],
      'it has 3 arguments, and takes a key and options; write the options as one object',
    ],
    ['null', [null], 'its key is null; write a template'],
    ['true', [true], 'its key is true; write a template'],
    ['no argument', [], 'its key is undefined'],
  ])('recognizes the arguments of another decorator: %s', (_, args, message) => {
    const decorate = (): void =>
      (Locked as unknown as (...given: unknown[]) => LooseDecorator)(...args)(
        Target.prototype,
        'take',
        descriptorOf('take'),
      );
    expect(decorate).toThrow(LockConfigError);
    expect(decorate).toThrow('Cannot apply @Locked to Target.take: ');
    expect(decorate).toThrow(message);
  });

  it('accepts positions of a rest parameter, and of a method that another decorator has replaced', () => {
    const decorate = (): unknown => {
      class Stock {
        @Locked('stock:<1>')
        async each(...ids: string[]) {
          return Promise.resolve(ids);
        }
        @Locked('stock:<1>')
        @Wrapped()
        async move(_from: string, to: string) {
          return Promise.resolve(to);
        }
        @Locked('stock:<1>')
        @Wrapped()
        async ['com' + 'puted'](_from: string, to: string) {
          return Promise.resolve(to);
        }
      }
      return Stock;
    };
    expect(decorate).not.toThrow();
  });

  it('refuses a result kind that contradicts the declared return type', () => {
    const decorate = (options: LockedOptions) => () => {
      class Stock {
        @Locked('k', options)
        async *each() {
          yield Promise.resolve(1);
        }
      }
      return Stock;
    };
    expect(decorate({ returns: 'promise' })).toThrow("the method is declared as 'iterable'");
    expect(decorate({ returns: 'iterable' })).not.toThrow();
  });
});
