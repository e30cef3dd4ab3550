import type { ExecutionContext } from '@nestjs/common';
import { isDeclaredObservable } from './declared-observable.js';
import { handlerDeclaration } from './handler-declaration.js';

/** Whether the handler of a request is declared to return an Observable; false if that is not known. */
export function isObservableHandler(context: ExecutionContext): boolean {
  const declaration = handlerDeclaration(context);
  return declaration !== undefined && isDeclaredObservable(declaration.owner, declaration.name);
}
