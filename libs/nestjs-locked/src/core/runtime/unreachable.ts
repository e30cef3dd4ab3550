/** Ends an exhaustive `switch`: a missing case is a compiler error. */
export function unreachable(value: never): never {
  throw new Error(`Unexpected ${JSON.stringify(value)}`);
}
