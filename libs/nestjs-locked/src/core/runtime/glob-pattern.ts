/** An escaped character, a class (possibly unterminated), or any other character. */
const PARTS = /\\.|\[(\^?)((?:\\.|[^\]]-.|[^\]])*)\]?|./gs;
/** Within a class: an escaped character, a range, or any other character. */
const MEMBERS = /\\.|.-.|./gs;
/** Stands for `*` in a pattern that is being read. It is no byte. */
const STAR = '\u0100';

/**
 * Whether a string matches a Redis MATCH pattern, by the rules of `stringmatchlen`: `*`, `?`, `[ab]`, `[^a]`, `[a-z]`
 * (or `[z-a]`), and `\` as escape. Every pattern is valid: an unterminated class ends with the pattern. Redis counts in
 * bytes, so `?` is only half of an 'é'.
 *
 * What stands between two asterisks is taken where it comes first, and nowhere else, which misses no match. A lookahead
 * is not entered again, so even a hostile pattern takes no longer than the text times the pattern.
 */
export function globPattern(glob: string): (text: string) => boolean {
  const source = bytes(glob).replace(PARTS, (part, not: string, members?: string) => {
    if (members !== undefined) return `[${not}${members.replace(MEMBERS, member)}]`;
    if (part === '*') return STAR;
    return part === '?' ? '.' : literal(part.at(-1) as string);
  });
  const [first, ...rest] = source.split(STAR);
  const last = rest.pop();
  const middle = rest.map((text, i) => `(?=(.*?${text}))\\${i + 1}`).join('');
  const pattern = new RegExp(`^${first}${middle}${last === undefined ? '' : `.*${last}`}$`, 's');
  return (text) => pattern.test(bytes(text));
}

function member(part: string): string {
  if (part.length < 3) return literal(part.at(-1) as string);
  const [from, to] = [part[0] as string, part[2] as string].sort() as [string, string];
  return `${literal(from)}-${literal(to)}`;
}

function literal(byte: string): string {
  return byte.replace(/\W/, '\\$&');
}

/** One character for each byte. */
function bytes(text: string): string {
  return Buffer.from(text).toString('latin1');
}
