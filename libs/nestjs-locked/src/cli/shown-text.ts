/**
 * What a terminal would carry out, hide or reorder, or whose width depends on what is beside it: control and format
 * characters, what Unicode has not assigned, line separators, variation selectors, skin tones, the third mark in a row.
 */
const UNSHOWN = /[\p{C}\p{Zl}\p{Zp}\p{Variation_Selector}\p{Emoji_Modifier}]|(?<=\p{M}{2})\p{M}/gu;

/** What JSON leaves as it is of these. */
const UNSHOWN_IN_JSON = /[\p{C}\u2028\u2029]/gu;

/** Characters that put nothing beside the one before them. */
const NARROWEST = /[\p{Mn}\p{Me}\u1160-\u11ff]/u;

/** Characters that take two columns, according to the East Asian Width of Unicode. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u4dbf\u4e00-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|(?![\u{1f1e6}-\u{1f1ff}])\p{Emoji_Presentation}/u;

/** A text from Redis as a terminal may have it: on one line, and without effects. */
export function shownText(text: string): string {
  return text.replace(UNSHOWN, (character) => `\\u{${hex(character)}}`);
}

/** The same for a text in JSON, which means the same afterwards. */
export function shownJson(json: string): string {
  return json.replace(UNSHOWN_IN_JSON, (character) =>
    Array.from({ length: character.length }, (_, i) => unit(character, i)).join(''),
  );
}

/** How many columns a shown text takes. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += columnsOf(character);
  return width;
}

/** The text in at most so many columns: its beginning and its end, because keys that differ often end differently. */
export function cutTo(columns: number, text: string): string {
  if (widthOf(text) <= columns) return text;
  const tail = Math.floor((columns - 1) / 2);
  const characters = [...text];
  const end = startOf(tail, characters.toReversed()).reverse();
  return [...startOf(columns - 1 - tail, characters), '…', ...end].join('');
}

function startOf(columns: number, characters: readonly string[]): string[] {
  let width = 0;
  const end = characters.findIndex((character) => (width += columnsOf(character)) > columns);
  return characters.slice(0, end);
}

function columnsOf(character: string): number {
  if (NARROWEST.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

function hex(character: string): string {
  return (character.codePointAt(0) as number).toString(16);
}

function unit(character: string, index: number): string {
  return `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`;
}
