/** Translates a pattern as Redis' MATCH takes it: `*`, `?`, `[ab]`. */
export function globPattern(glob: string): RegExp {
  const source = glob
    .replace(/[.+^${}()|\\]/g, '\\$&')
    .replace(/\*/g, '.*')
    .replace(/\?/g, '.');
  return new RegExp(`^${source}$`, 's');
}
