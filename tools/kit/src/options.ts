/** Values of options. Each function throws an Error that names the option, its value and what is allowed. */

export function wholeNumberFrom(option: string, text: string, min: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new Error(`--${option} is '${text}': give a whole number from ${min}`);
}

/** A number that need not be whole; undefined if the option was not given. */
export function numberFrom(
  option: string,
  text: string | undefined,
  min: number,
): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (value >= min) return value;
  throw new Error(`--${option} is '${text}': give a number from ${min}`);
}

export function nameFrom<Name extends string>(
  option: string,
  text: string,
  known: readonly Name[],
): Name {
  const found = known.find((name) => name === text);
  if (found !== undefined) return found;
  throw new Error(`--${option} is '${text}': give one of ${known.join(', ')}`);
}

/** Several names: `--only a --only b`, or `--only a,b`. */
export function namesFrom<Name extends string>(
  option: string,
  given: string | readonly string[],
  known: readonly Name[],
): ReadonlySet<Name> {
  const names = [given].flat().flatMap((text) => text.split(','));
  return new Set(names.filter((name) => name !== '').map((name) => nameFrom(option, name, known)));
}

/** Those of the known names that were given, in their order; all of them if none was. */
export function chosenFrom<Name extends string>(
  option: string,
  given: string | readonly string[],
  known: readonly Name[],
): Name[] {
  const wanted = namesFrom(option, given, known);
  return wanted.size === 0 ? [...known] : known.filter((name) => wanted.has(name));
}
