/** Up to this many edits count as a typing error, but no more than half of a name. */
const MOST_EDITS = 2;

/**
 * What to write instead of an unknown name.
 *
 * @param elsewhere known names that belong elsewhere, each with the place
 * @param otherwise what to say of a name that resembles none. @default to leave it out, or to write another
 */
export function adviceFor(
  name: string,
  table: Readonly<Record<string, { readonly otherNames?: readonly string[] }>>,
  elsewhere: Readonly<Record<string, string>>,
  otherwise?: string,
): string {
  if (Object.hasOwn(elsewhere, name)) return elsewhere[name] as string;
  const names = Object.keys(table);
  const other = name.toLowerCase();
  const meant =
    names.find((known) => table[known]?.otherNames?.includes(other)) ?? closest(name, names);
  if (meant !== undefined) return `did you mean '${meant}'?`;
  return otherwise ?? `leave it out, or write one of ${names.join(', ')}`;
}

/** The same advice for each of these names. */
export function adviceForEach(names: readonly string[], advice: string): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, advice]));
}

/** The name that a typing error has turned into this one. */
export function closest(name: string, names: readonly string[]): string | undefined {
  const distances = names.map((other) => editDistance(name.toLowerCase(), other.toLowerCase()));
  const least = Math.min(...distances);
  return least <= Math.min(MOST_EDITS, name.length / 2)
    ? names[distances.indexOf(least)]
    : undefined;
}

/** How many letters must be added, left out or replaced (Levenshtein 1966). */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= to.length; column++) {
      const replaced = (row[column - 1] as number) + (letter === to[column - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[column] as number) + 1, (next[column - 1] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}
