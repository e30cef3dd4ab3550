import { describe, expect, it } from '@jest/globals';
import type { KeyValue } from '../../libs/nestjs-locked/src/core/keys/key-value.js';
import { assertLockKey, lockKey } from '../../libs/nestjs-locked/src/core/keys/lock-key.js';
import { LockKeyError } from '../../libs/nestjs-locked/src/core/lock.errors.js';

const forced = (value: unknown): KeyValue => value as KeyValue;

describe('lockKey', () => {
  it('puts strings, numbers, bigints and booleans in', () => {
    expect(lockKey`stock:${'a-1'}:${42}:${10n}:${false}`).toBe('stock:a-1:42:10:false');
    expect(lockKey`report:nightly`).toBe('report:nightly');
    expect(lockKey`${0.5}`).toBe('0.5');
  });

  it('keeps values apart that contain the separator', () => {
    const split = (a: string, b: string): string => lockKey`${a}:${b}`;
    expect(split('x:y', 'z')).toBe('x%3Ay:z');
    expect(split('x', 'y:z')).toBe('x:y%3Az');
    expect(split('x%3Ay', 'z')).toBe('x%253Ay:z');
  });

  it('gives a different key for every pair of hostile values', () => {
    const pieces = [
      'a',
      'a:',
      ':a',
      ':',
      '::',
      '%3A',
      '%',
      '{a}',
      '{',
      '}',
      ' ',
      '\t',
      '%20',
      'a b',
      '<a>',
      '<',
      '>',
      '%3C',
      '/',
      '%2F',
    ];
    const pairs = pieces.flatMap((a) => pieces.map((b) => lockKey`k:${a}:${b}`));
    expect(new Set(pairs).size).toBe(pieces.length ** 2);
  });

  it.each([
    ['{stock:1}', '%7Bstock%3A1%7D'],
    ['a b\u00a0c\u2028d\ufeff', 'a%20b%C2%A0c%E2%80%A8d%EF%BB%BF'],
    ['a\r\nDEL lock\0\u007f\u0085', 'a%0D%0ADEL%20lock%00%7F%C2%85'],
    ['grün🔒', 'grün🔒'],
    ['<id>', '%3Cid%3E'],
    ['<b>a -> b</b>', '%3Cb%3Ea%20-%3E%20b%3C/b%3E'],
    ['${id}', '$%7Bid%7D'],
    ['/:id', '/%3Aid'],
    ['[object Object]', '[object%20Object]'],
    ['/a/b/', '/a/b%2F'],
    ['//', '/%2F'],
    ['undefined', '%75ndefined'],
    ['null', '%6eull'],
    ['NaN', '%4eaN'],
    ['nullable', 'nullable'],
    ['a-undefined', 'a-%75ndefined'],
    ['a/null', 'a/%6eull'],
  ])('escapes %j', (value, escaped) => {
    expect(lockKey`stock:${value}`).toBe(`stock:${escaped}`);
    expect(() => assertLockKey(lockKey`stock:${value}`)).not.toThrow();
    expect(() => assertLockKey(lockKey`stock:${value}:render`)).not.toThrow();
    expect(() => assertLockKey(lockKey`${value}`)).not.toThrow();
  });

  it.each([
    [undefined, 'value 1 is undefined; pass a string, a finite number, a bigint or a boolean'],
    [null, 'value 1 is null; pass a string'],
    ['', "value 1 is ''; pass a string"],
    [NaN, 'value 1 is NaN; pass a string, a finite number'],
    [-Infinity, 'value 1 is -Infinity'],
    [{ id: 1 }, 'value 1 is an object; use one of its properties'],
    [new (class Order {})(), 'value 1 is an object (Order); use one of its properties'],
    [Object.create(null), 'value 1 is an object; use one of its properties'],
    [new Date(0), 'value 1 is an object (Date); convert it to a string first'],
    [
      Buffer.of(255),
      "value 1 is an object (Buffer); convert it to a string first, for example with toString('hex')",
    ],
    [
      new URL('a:b'),
      'value 1 is an object (URL); convert it to a string first, for example with toString()',
    ],
    [Promise.resolve('a'), 'value 1 is an object (Promise); await it first'],
    [['a'], 'value 1 is an array; use one of its elements'],
    [() => 'a', 'value 1 is a function'],
    [Symbol('a'), 'value 1 is a symbol'],
    ['\ud800', 'value 1 is not well-formed text'],
    ['x'.repeat(600), 'value 1 has 600 characters; a key has 512 bytes at most'],
  ])('refuses %p and names template, value and remedy', (value, message) => {
    const build = (): string => lockKey`stock:${forced(value)}`;
    expect(build).toThrow(LockKeyError);
    expect(build).toThrow(`Cannot build a lock key from lockKey\`stock:\${…}\`: ${message}`);
  });

  it('names the position of the value', () => {
    expect(() => lockKey`move:${'a'}:${forced(undefined)}`).toThrow('value 2 is undefined');
  });

  it('counts bytes, not characters, and after escaping', () => {
    expect(lockKey`k:${'x'.repeat(510)}`).toHaveLength(512);
    expect(() => lockKey`k:${'x'.repeat(511)}`).toThrow('it has 513 bytes, 512 are allowed');
    expect(() => lockKey`k:${'ü'.repeat(300)}`).toThrow('it has 602 bytes');
    expect(() => lockKey`k:${':'.repeat(200)}`).toThrow('it has 602 bytes');
  });

  it('refuses text that is not a key', () => {
    expect(() => lockKey``).toThrow('it is empty');
    expect(() => lockKey`{stock}:${1}`).toThrow('braces are reserved');
    expect(() => lockKey`a\nb`).toThrow('line break or control character');
    expect(() => lockKey`a\u{zz}b`).toThrow('its text has an invalid escape');
    expect(() => lockKey`stock:<${1}>`).toThrow("'<' is reserved for placeholders; leave it out");
    expect(() => lockKey`stock/:${'id'}`).toThrow("'/:' before a value is route syntax");
    expect(lockKey`stock:${'id'}/:`).toBe('stock:id/:');
    expect(() => lockKey`stock:%${'s'}`).toThrow(
      "'%' before a value is the beginning of a placeholder",
    );
    expect(lockKey`${'fe80'}%${'s'}`).toBe('fe80%s');
    expect(() => lockKey`stock:<id>:${1}`).toThrow(
      "'<id>' is not filled in, so that all calls would share one lock; write lockKey`stock:${id}:${value}`",
    );
    expect(lockKey`move:${'a'}->${'b'}`).toBe('move:a->b');
  });

  it('refuses two values with nothing between them', () => {
    expect(() => lockKey`k:${'a'}${'bc'}`).toThrow('nothing stands between values 1 and 2');
    expect(lockKey`${'a'}:${'b'}`).toBe('a:b');
  });

  it('refuses to be called as a function', () => {
    const call = lockKey as unknown as (text: string) => string;
    expect(() => call('stock:1')).toThrow('lockKey is a template tag');
  });
});

describe('assertLockKey', () => {
  it.each([
    'stock:42',
    'report nightly',
    'ünïcode',
    'x'.repeat(512),
    'a:id',
    ':id',
    'stock:#id',
    'stock:%20',
    'stock:%side',
    '50%s',
    'http://host/:8080',
    'a->b',
    '50%',
    '$id',
    '[object]',
    'undefined-behaviour',
    'post:how-to-handle-null',
    'post-about-undefined',
    '/orders?filter=null',
    'network:fe80::',
    'app::user',
    'pair:1,2',
    'stock:a*',
    lockKey`stock:${'*'}`,
    'stock:nullable:annulled',
    lockKey`post:${'<b>{x}</b> ${y} /:z [object Object]'}`,
  ])('accepts %p', (key) => {
    expect(() => assertLockKey(key)).not.toThrow();
  });

  it.each([
    ['stock:<id>', '<id>', '${id}', "keyFor('stock:<id>', { id })"],
    ['stock:%s', '%s', '${value}', "keyFor('stock:<value>', { value })"],
    ['stock:%s-new', '%s', '${value}-new', "keyFor('stock:<value>-new', { value })"],
    ['stock:old_%d', '%d', 'old_${value}', "keyFor('stock:old_<value>', { value })"],
    ['stock:{id}', '{id}', '${id}', "keyFor('stock:<id>', { id })"],
    ['stock:${id}', '${id}', '${id}', "keyFor('stock:<id>', { id })"],
    ['stock:{{ id }}', '{{ id }}', '${id}', "keyFor('stock:<id>', { id })"],
    ['stock:#{id}', '#{id}', '${id}', "keyFor('stock:<id>', { id })"],
    ['stock:<order.sku>', '<order.sku>', '${order.sku}', "keyFor('stock:<order.sku>', { order })"],
    ['stock:<0.sku>', '<0.sku>', '${value}', "keyFor('stock:<value>', { value })"],
    ['stock:<items[].sku>', '<items[].sku>', '${value}', "keyFor('stock:<value>', { value })"],
    ['stock:<the id>', '<the id>', '${value}', "keyFor('stock:<value>', { value })"],
  ])('refuses %p, and shows what fills it in', (key, found, value, call) => {
    expect(() => assertLockKey(key)).toThrow(LockKeyError);
    expect(() => assertLockKey(key)).toThrow(
      `Cannot use '${key}' as a lock key: '${found}' is not filled in, so that all calls would share one lock`,
    );
    expect(() => assertLockKey(key)).toThrow(`; write lockKey\`stock:${value}\`, or locks.${call}`);
  });

  it.each([
    [
      'stock/:id',
      "':id' is not filled in",
      "write lockKey`stock/${id}`, or locks.keyFor('stock/<id>'",
    ],
    ['<from>:<to>', "'<from>' is not filled in", "keyFor('<from>:<to>', { from, to })"],
    ['stock:[object Object]', "'[object Object]' is an object that was made a string", 'order.id'],
    ['stock:[object Promise]', "'[object Promise]' is an object", 'put one of its properties in'],
    [
      'stock:<id',
      "'<' is reserved for placeholders; leave it out",
      'put the value in with lockKey',
    ],
    ['stock:undefined', "its part 'undefined' is what a missing value becomes", 'with lockKey'],
    ['order-undefined', "its part 'undefined' is what a missing value becomes", 'with lockKey'],
    ['order_null', "its part 'null'", 'put it in with lockKey'],
    ['id=NaN', "its part 'NaN'", 'put it in with lockKey'],
    ['stock:', "its part '' is what a missing value becomes", 'put it in with lockKey'],
    ['stock:1,stock:2', 'it is one key, and looks like several', "pass a list: ['a', 'b']"],
    ['undefined', "its part 'undefined'", 'check the value before the call'],
    ['tenant/null/mail', "its part 'null'", 'put it in with lockKey'],
    ['NaN:stock', "its part 'NaN'", 'check the value before the call'],
    ['{"id":1}', 'braces are reserved for the hash tag', 'put the value in with lockKey'],
    ['{stock:1}', 'braces are reserved for the hash tag', 'put the value in with lockKey'],
  ])('refuses %p', (key, problem, remedy) => {
    expect(() => assertLockKey(key)).toThrow(problem);
    expect(() => assertLockKey(key)).toThrow(remedy);
  });

  it.each([
    ['', "Cannot use '' as a lock key: it is empty"],
    [
      'a{b}c',
      "Cannot use 'a{b}c' as a lock key: '{b}' is not filled in, so that all calls would share one lock, and braces are reserved for the hash tag of Redis Cluster; write lockKey`a${b}c`",
    ],
    ['a\nb', "Cannot use 'a\\u000ab' as a lock key: it has a line break"],
    ['a\u2028b', "Cannot use 'a\\u2028b' as a lock key: it has a line break"],
    ['x'.repeat(513), 'as a lock key: it has 513 bytes, 512 are allowed'],
    ['a\udc00', 'it is not well-formed text'],
    ['stock:*', "a key is no pattern: its '*' stands for no other key"],
    ['*', 'a key is no pattern'],
    [42, 'Cannot use 42 as a lock key: it must be a string'],
    [undefined, 'Cannot use undefined as a lock key'],
    [
      Promise.resolve('a'),
      'Cannot use an object (Promise) as a lock key: it must be a string, so await it',
    ],
    [['a'], 'Cannot use an array as a lock key'],
  ])('refuses %p', (key, message) => {
    expect(() => assertLockKey(key)).toThrow(LockKeyError);
    expect(() => assertLockKey(key)).toThrow(message);
  });
});
