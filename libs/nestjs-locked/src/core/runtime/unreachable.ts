/** Ends an exhaustive `switch`: the compiler complains when a case is missing. */
export function unreachable(value: never): never {
  throw new Error(`Unexpected ${JSON.stringify(value)}`);
}
