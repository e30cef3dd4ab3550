/** An escaped character, a class (possibly unterminated), or any other character. */
const PARTS = /\\.|\[(\^?)((?:\\.|[^\]]-.|[^\]])*)\]?|./gs;
/** Within a class: an escaped character, a range, or any other character. */
const MEMBERS = /\\.|.-.|./gs;

/**
 * Whether a string matches a Redis MATCH pattern, by the rules of `stringmatchlen`: `*`, `?`, `[ab]`, `[^a]`, `[a-z]`
 * (or `[z-a]`), and `\` as escape. Every pattern is valid: an unterminated class ends with the pattern. Redis counts in
 * bytes, so `?` is only half of an 'é'.
 */
export function globPattern(glob: string): (text: string) => boolean {
  const source = bytes(glob).replace(PARTS, (part, not: string, members?: string) => {
    if (members !== undefined) return `[${not}${members.replace(MEMBERS, member)}]`;
    if (part === '*') return '.*';
    return part === '?' ? '.' : literal(part.at(-1) as string);
  });
  const pattern = new RegExp(`^${source}$`, 's');
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
