/** A decorator that replaces the method, so that its parameters have no names. */
export function Logged(): MethodDecorator {
  return (_target, _name, descriptor) => {
    const method = descriptor.value as unknown as (...args: unknown[]) => unknown;
    descriptor.value = function (this: unknown, ...args: unknown[]) {
      return method.apply(this, args);
    } as never;
  };
}
