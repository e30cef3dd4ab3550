/**
 * The template of a key, for metrics, which must have few values: `stock:<id>`. Only `@Locked` knows it; a key that was
 * built elsewhere is grouped by its text before the first colon, `stock:*`, and any other is `*`.
 */
export function templateOf(key: string, known: string | undefined): string {
  if (known !== undefined) return known;
  const end = key.indexOf(':');
  return end === -1 ? '*' : `${key.slice(0, end)}:*`;
}
