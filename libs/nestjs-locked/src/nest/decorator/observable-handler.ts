import type { ExecutionContext } from '@nestjs/common';
import { isDeclaredObservable } from './declared-observable.js';

/** Whether the handler of a request is declared to return an Observable; false if that is not known. */
export function isObservableHandler(context: ExecutionContext): boolean {
  const handler = context.getHandler();
  // Another decorator may have named it differently, and a class may have inherited it.
  let owner: object | null = context.getClass().prototype as object | null;
  for (; owner !== null; owner = Reflect.getPrototypeOf(owner)) {
    for (const name of Reflect.ownKeys(owner)) {
      if (Reflect.getOwnPropertyDescriptor(owner, name)?.value === handler) {
        return isDeclaredObservable(owner, name);
      }
    }
  }
  return false;
}
