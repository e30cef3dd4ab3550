const LONGEST_SHOWN = 80;

/** A line break or control character, with which input could forge a log line. */
export const CONTROL_CHARACTER = /[\p{Cc}\u2028\u2029]/u;

/** A string for a message: quoted, truncated, and always on one line. */
export function quoted(text: string): string {
  const cut = text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
  return `'${onOneLine(cut)}'`;
}

/** A text from elsewhere, for a message. */
export function onOneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]/gu, asEscape);
}

export function quotedList(texts: readonly string[]): string {
  return texts.map(quoted).join(', ');
}

function asEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
