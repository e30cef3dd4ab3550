import { expect, it } from '@jest/globals';
import type { LockError } from 'nestjs-locked';
import * as library from 'nestjs-locked';

type ErrorClass = new (message: string, ...more: unknown[]) => Error & Pick<LockError, 'code'>;

const classes = Object.entries(library)
  .filter(([name]) => /^Lock\w+Error$/.test(name) && name !== 'LockError')
  .map(([name, value]) => [name, value as unknown as ErrorClass] as const);

it('there are as many errors as codes', () => {
  const codes = classes.map(([, LockErrorClass]) => new LockErrorClass('m').code);
  expect(new Set(codes).size).toBe(13);
});

it.each(classes)('%s is an instance of LockError, and has a code', (_, LockErrorClass) => {
  const error = new LockErrorClass('m');
  expect(error).toBeInstanceOf(library.LockError);
  expect(error.code).toMatch(/^LOCK_[A-Z_]+$/);
});

it.each(classes)('%s has its name, although a minifier has renamed its class', (name, Original) => {
  const e = class extends Original {};
  expect(e.name).toBe('e');
  expect(new e('m').name).toBe(name);
});

it.each(classes)(
  '%s recognizes its errors of another copy of the package, and no others',
  (_, Class) => {
    const { code } = new Class('m');
    const others = classes.map(([, Other]) => {
      const error = Object.assign(new Error('m'), { code: new Other('m').code });
      return Object.defineProperty(error, Symbol.for('nestjs-locked/LockError'), { value: true });
    });
    expect(others.filter((error) => error instanceof Class)).toEqual([
      expect.objectContaining({ code }),
    ]);
  },
);
