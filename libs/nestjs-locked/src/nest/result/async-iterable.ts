export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof (value as Partial<AsyncIterable<unknown>> | null)?.[Symbol.asyncIterator] === 'function'
  );
}
