import type { ExecutionContext, Type } from '@nestjs/common';

/** Where Nest writes down which interceptors stand on a class or method. */
const INTERCEPTORS = '__interceptors__';

/**
 * Whether no other interceptor runs between this one and the handler. Nest runs global ones first, then those of the
 * class, then those of the method. False for one that is global, or named twice: what is inside of it is not known.
 */
export function isInnermostInterceptor(interceptor: Type, context: ExecutionContext): boolean {
  const inner = [context.getClass(), context.getHandler()].flatMap(
    (target) => (Reflect.getMetadata(INTERCEPTORS, target) as unknown[] | undefined) ?? [],
  );
  return inner.length > 0 && inner.indexOf(interceptor) === inner.length - 1;
}
