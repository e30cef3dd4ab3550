/** Reads the values of options. Each function throws an Error that names the option, its value and what is allowed. */

/** Several names, separated by commas. */
export function namesIn<Name extends string>(
  option: string,
  text: string,
  allowed: readonly Name[],
): ReadonlySet<Name> {
  const names = text.split(',').filter((name) => name !== '');
  return new Set(names.map((name) => oneOf(option, name, allowed)));
}

export function wholeNumber(name: string, text: string, min: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new Error(`--${name} ${text}: it must be a whole number from ${min}`);
}

export function oneOf<Name extends string>(
  option: string,
  text: string,
  names: readonly Name[],
): Name {
  const found = names.find((name) => name === text);
  if (found !== undefined) return found;
  throw new Error(`--${option} ${text}: it must be one of ${names.join(', ')}`);
}
