/** How many groups there are of keys whose template is not known, so that metrics stay small whatever the keys are. */
const MOST_GROUPS = 100;

const groups = new Set<string>();

/**
 * The template of a key, for metrics, which must have few values: `stock:<id>`. Only `@Locked` knows it; a key that was
 * built elsewhere is grouped by its text before the first colon, `stock:*`. A key without a colon is `*`, and so is
 * every key that would make a hundred and first group in this process.
 */
export function templateOf(key: string, known: string | undefined): string {
  if (known !== undefined) return known;
  const end = key.indexOf(':');
  if (end === -1) return '*';
  const group = `${key.slice(0, end)}:*`;
  if (groups.has(group)) return group;
  if (groups.size === MOST_GROUPS) return '*';
  groups.add(group);
  return group;
}
