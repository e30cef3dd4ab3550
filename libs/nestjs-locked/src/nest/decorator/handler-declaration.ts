import type { ExecutionContext } from '@nestjs/common';

/** Where the handler of a request is declared. */
export interface HandlerDeclaration {
  /** The prototype with the handler as an own property. */
  readonly owner: object;
  readonly name: string | symbol;
}

/**
 * Searches by value, because another decorator may have changed the handler's `name`, and the class may have inherited
 * it.
 */
export function handlerDeclaration(context: ExecutionContext): HandlerDeclaration | undefined {
  const handler = context.getHandler();
  let owner: object | null = context.getClass().prototype as object | null;
  for (; owner !== null; owner = Reflect.getPrototypeOf(owner)) {
    for (const name of Reflect.ownKeys(owner)) {
      if (Reflect.getOwnPropertyDescriptor(owner, name)?.value === handler) return { owner, name };
    }
  }
  return undefined;
}
