import type { ExecutionContext, Type } from '@nestjs/common';

/** Nest's metadata key for the interceptors of a class or method. */
const INTERCEPTORS = '__interceptors__';

/**
 * Whether no other interceptor runs between this one and the handler. Nest runs global ones first, then those of the
 * class, then those of the method. False for a global interceptor, or one named twice, because what runs inside it is
 * unknown.
 */
export function isInnermostInterceptor(interceptor: Type, context: ExecutionContext): boolean {
  const inner = [context.getClass(), context.getHandler()].flatMap(
    (target) => (Reflect.getMetadata(INTERCEPTORS, target) as unknown[] | undefined) ?? [],
  );
  return inner.length > 0 && inner.indexOf(interceptor) === inner.length - 1;
}
