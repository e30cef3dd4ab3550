/** Stands in for `node:path`, which only `renewFrom: 'worker'` needs; no history has it. */
export function join(...parts: readonly string[]): string {
  return parts.join('/');
}
