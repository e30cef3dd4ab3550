import type { ExecutionContext } from '@nestjs/common';

/** Where the handler of a request is written down. */
export interface HandlerDeclaration {
  /** The prototype that has the handler as a member of its own. */
  readonly owner: object;
  readonly name: string | symbol;
}

/** Another decorator may have named the handler differently, and a class may have inherited it. */
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
