import { describe, expect, it } from '@jest/globals';
import { KeyTemplate } from '../../libs/nestjs-locked/src/core/keys/key-template.js';
import { LockConfigError, LockKeyError } from '../../libs/nestjs-locked/src/core/lock.errors.js';

/** The keys, with a blank between them. */
function render(text: string, values: Record<string, unknown>): string {
  return new KeyTemplate(text, 'Stock.take').render((root) => values[root]).join(' ');
}

describe('KeyTemplate', () => {
  it('knows its placeholders', () => {
    const template = new KeyTemplate('move:<from>:<order.lines.0.sku>:<1.id>');
    expect(template.placeholders).toEqual([
      { text: '<from>', root: 'from', path: [], each: undefined },
      { text: '<order.lines.0.sku>', root: 'order', path: ['lines', '0', 'sku'], each: undefined },
      { text: '<1.id>', root: '1', path: ['id'], each: undefined },
    ]);
  });

  it('inserts values by name, path and position', () => {
    expect(render('stock:<id>', { id: 42 })).toBe('stock:42');
    expect(render('<id>', { id: 'a:b' })).toBe('a%3Ab');
    expect(render('report:nightly', {})).toBe('report:nightly');
    expect(render('user:<id>:update', { id: 7 })).toBe('user:7:update');
    expect(render('<id>:update/<id>', { id: 7 })).toBe('7:update/7');
    expect(render('stock:<order.lines.1.sku>!', { order: { lines: [{}, { sku: 'x' }] } })).toBe(
      'stock:x!',
    );
    expect(render('pair:<id>,<id>', { id: 7 })).toBe('pair:7,7');
    expect(render('<id>,<id>', { id: 7 })).toBe('7,7');
    expect(render('name:<id>', { id: 'null' })).toBe('name:%6eull');
    expect(render('stock:<0.sku>:<id>', { 0: { sku: 'x' }, id: true })).toBe('stock:x:true');
    expect(render('h:<headers.x-request-id>', { headers: { 'x-request-id': 'r' } })).toBe('h:r');
  });

  it('gives a key for each element of a list', () => {
    const order = { shop: 's', items: [{ sku: 'x' }, { sku: 'y:z' }] };
    expect(render('stock:<order.items[].sku>', { order })).toBe('stock:x stock:y%3Az');
    expect(render('<order.shop>:<order.items[].sku>!', { order })).toBe('s:x! s:y%3Az!');
    expect(render('stock:<ids[]>', { ids: [1, 2, 1] })).toBe('stock:1 stock:2 stock:1');
    const pairs = {
      pairs: [
        { from: 1, to: 2 },
        { from: 3, to: 4 },
      ],
    };
    expect(render('<pairs[].from>-<pairs[].to>', pairs)).toBe('1-2 3-4');
  });

  it.each([
    [{ order: { items: [] } }, 'has no elements: nothing would be locked'],
    [{ order: { items: 'xy' } }, 'needs a list, but it is a string'],
    [{ order: {} }, "<order.items[].sku> is undefined: order has no 'items'"],
    [{ order: { items: undefined } }, 'needs a list, but it is undefined'],
    [{ order: [{}] }, 'is undefined: order is an array; use one of its elements'],
    [
      { order: { items: [{ sku: 'x' }, {}] } },
      "<order.items[].sku> is undefined: order.items[1] has no 'sku'",
    ],
    [{ order: { items: [null] } }, 'order.items[0] is null'],
    [{ order: { items: new Array(2) } }, 'order.items[0] is undefined'],
    [{ order: { items: Object.assign([], { 1: { sku: 'x' } }) } }, 'order.items[0] is undefined'],
  ])('refuses the list in %j', (values, message) => {
    expect(() => render('stock:<order.items[].sku>', values)).toThrow(LockKeyError);
    expect(() => render('stock:<order.items[].sku>', values)).toThrow(message);
  });

  it('reads getters of a class', () => {
    class Order {
      get sku(): string {
        return 'x';
      }
    }
    expect(render('stock:<order.sku>', { order: new Order() })).toBe('stock:x');
  });

  it('never builds the same key for two different pairs [D137]', () => {
    const key = (a: string, b: string): string => render('<a>:<b>', { a, b });
    expect(key('x:y', 'z')).not.toBe(key('x', 'y:z'));
  });

  it.each([
    ['stock:<id>', {}, '<id> is undefined; pass a string, a finite number, a bigint or a boolean'],
    ['stock:<id>', { id: '' }, "<id> is ''; pass a string"],
    ['stock:<id>', { id: { sku: 1 } }, '<id> is an object; use one of its properties'],
    [
      'stock:<id>',
      { id: ['a'] },
      '<id> is an array; write <id[]> to lock all its elements, or <id.0> for the first one',
    ],
    ['stock:<o.ids>', { o: { ids: [] } }, '<o.ids> is an array; write <o.ids[]> to lock'],
    ['stock:<o.sku>', {}, "<o.sku> cannot be read, o is undefined; pass an object that has 'sku'"],
    [
      'stock:<o.a.b>',
      { o: { a: null } },
      "<o.a.b> cannot be read, o.a is null; pass an object that has 'b'",
    ],
    ['stock:<o.sku>', { o: { sku: undefined } }, '<o.sku> is undefined; pass a string'],
    [
      'stock:<o.sku>',
      { o: {} },
      "<o.sku> is undefined: o has no 'sku'; pass an object that has it, or correct the name",
    ],
    ['stock:<o.ID>', { o: { id: 1 } }, "<o.ID> is undefined: o has no 'ID'; did you mean 'id'?"],
    // The sender of a request chooses the names in it.
    [
      'stock:<o.ID>',
      {
        o: Object.fromEntries(
          [...Array(20).keys(), 'id'].map((name) => [name === 'id' ? name : `${name}xyz`, 1]),
        ),
      },
      "<o.ID> is undefined: o has no 'ID'; pass an object",
    ],
    [
      `stock:<o.${'i'.repeat(40)}>`,
      { o: { ['i'.repeat(41)]: 1 } },
      `<o.${'i'.repeat(40)}> is undefined: o has no '${'i'.repeat(40)}'; pass an object`,
    ],
    [
      'stock:<o.items.sku>',
      { o: { items: [{ sku: 1 }] } },
      '<o.items.sku> is undefined: o.items is an array; write <o.items[].sku> to lock all its elements, or <o.items.0.sku> for the first one',
    ],
    [
      'stock:<items.order.sku>',
      { items: [] },
      '<items.order.sku> is undefined: items is an array; write <items[].order.sku>',
    ],
    // A property of a string is never meant: 'abc'[0] would be one key for everything that begins with an a.
    [
      'stock:<ids.0>',
      { ids: 'abc' },
      "<ids.0> cannot be read, ids is a string; pass an object that has '0'",
    ],
    ['stock:<id>', { id: 'x'.repeat(510) }, 'it has 516 bytes, 512 are allowed'],
  ])('refuses %p with %p [D137]', (text, values, message) => {
    expect(() => render(text, values)).toThrow(LockKeyError);
    expect(() => render(text, values)).toThrow(
      `Cannot build a lock key from '${text}' of Stock.take: ${message}`,
    );
  });

  it('keeps the error of a getter as the cause', () => {
    const failure = new Error('not loaded');
    const order = {
      get sku(): string {
        throw failure;
      },
    };
    let caught: unknown;
    try {
      render('stock:<order.sku>', { order });
    } catch (error) {
      caught = error;
    }
    expect(caught).toBeInstanceOf(LockKeyError);
    expect((caught as LockKeyError).message).toContain(
      'reading order.sku failed: Error: not loaded',
    );
    expect((caught as LockKeyError).cause).toBe(failure);
  });

  it.each([
    ['', 'it is empty'],
    ['stock:<>', '<> must be a parameter'],
    ['stock:<a + b>', '<a + b> must be a parameter'],
    ['stock:<the id>', '<the id> must be a parameter'],
    ['stock:<order.sku()>', '<order.sku()> must be a parameter'],
    ['stock:<order..sku>', '<order..sku> must be a parameter'],
    ['stock:<order.>', '<order.> must be a parameter'],
    ['stock:<1a>', '<1a> must be a parameter'],
    ['stock:<id', "'<' and '>' are only allowed around a placeholder"],
    ['stock>id', "'<' and '>' are only allowed around a placeholder"],
    ['stock:<<id>>', "'<' and '>' are only allowed around a placeholder"],
    ['stock:{<id>}', 'braces are reserved'],
    ['stock:}', 'braces are reserved for the hash tag of Redis Cluster; leave them out'],
    ['stock/:<id>', "'/:' before a value is route syntax; leave the colon out"],
    [':id', "':id' is not filled in, so that all calls would share one lock; write <id>"],
    ['[object Object]:<id>', "'[object Object]' is an object that was made a string"],
    ['stock:\n<id>', 'line break or control character'],
    ['stock:undefined', "its part 'undefined' is what a missing value becomes as text"],
    ['null:<id>', "its part 'null' is what a missing value becomes as text"],
    [
      'account:<from>,account:<to>',
      "it is one key, and looks like several; write ['account:<from>', 'account:<to>']",
    ],
    ['a:<b> | a:<c> | a:<d>', "write ['a:<b>', 'a:<c>', 'a:<d>']"],
    ['<a1><b1>', 'nothing stands between <a1> and <b1>'],
    ['x'.repeat(513), 'it has 513 bytes'],
    ['stock:<a1[].b1[].c1>', 'use a function for anything else'],
    ['stock:<a1[]b1>', '<a1[]b1> must be'],
    ['<a1[]>:<b1[]>', "it iterates 'a1' and 'b1'; only one list is allowed"],
  ])('refuses the template %p', (text, message) => {
    expect(() => new KeyTemplate(text, 'Stock.take')).toThrow(LockConfigError);
    expect(() => new KeyTemplate(text, 'Stock.take')).toThrow(message);
    expect(() => new KeyTemplate(text, 'Stock.take')).toThrow('of Stock.take: ');
  });

  it.each([
    ['stock:{id}', "'{id}' is not filled in", 'stock:<id>'],
    [
      'stock:${id}',
      "'${id}' is not filled in, so that all calls would share one lock",
      'stock:<id>',
    ],
    ['${order.sku}:{{ id }}', "'${order.sku}' is not filled in", '<order.sku>:<id>'],
    ['stock:#{#order.id}', "'#{#order.id}' is not filled in", 'stock:<order.id>'],
    ['stock:{0}:<id>', "'{0}' is not filled in", 'stock:<0>:<id>'],
    ['stock:${order?.items[0].sku}', 'is not filled in', 'stock:<order.items.0.sku>'],
    ['stock:${a + b}', "'${a + b}' is not filled in", 'stock:<id>'],
    ['orders/:id/items', "':id' is not filled in", 'orders/<id>/items'],
    ['stock:%s', "'%s' is not filled in, so that all calls would share one lock", 'stock:<id>'],
    ['stock/%d/items', "'%d' is not filled in", 'stock/<id>/items'],
  ])('shows the placeholder for %p', (text, problem, template) => {
    expect(() => new KeyTemplate(text)).toThrow(LockConfigError);
    expect(() => new KeyTemplate(text)).toThrow(problem);
    expect(() => new KeyTemplate(text)).toThrow(`; write '${template}'`);
    expect(() => new KeyTemplate(template)).not.toThrow();
  });

  it.each([
    ['< id >', '<id>'],
    ['<ids[0]>', '<ids.0>'],
    ['<order?.items?.[0]!.sku!>', '<order.items.0.sku>'],
    [`<order['sku']>`, '<order.sku>'],
    ['<order["sku"]>', '<order.sku>'],
    ['<items[*].sku>', '<items[].sku>'],
    ['<order.id.toString()>', '<order.id>'],
    ['<id: string>', '<id>'],
    ['<id:int>', '<id>'],
    ['<order.items.[].sku>', '<order.items[].sku>'],
  ])('shows the path for %p', (written, path) => {
    expect(() => new KeyTemplate(`stock:${written}`)).toThrow(
      `: ${written} is not a path; write ${path}`,
    );
    expect(() => new KeyTemplate(`stock:${path}`)).not.toThrow();
  });

  it('refuses anything but a string', () => {
    const several = ['a:<x1>', 'b:<y1>'] as unknown as string;
    expect(() => new KeyTemplate(several)).toThrow(
      'Invalid key template an array: it must be a string',
    );
  });
});
