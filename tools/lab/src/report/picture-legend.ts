import { escapeMarkup, roundForSvg } from 'kit';
import { milliseconds, type Moment, type Timeline } from './timeline-model.js';

/** One kind of mark in a picture: how it looks, in a box of 34 by 16, and what it means. */
export interface Sign {
  readonly shape: string;
  readonly text: string;
  /** Whether a picture has it. */
  readonly isIn: (timeline: Timeline) => boolean;
}

export const SIGNS: readonly Sign[] = [
  {
    shape: '<rect class="wait" x="1" y="5" width="32" height="6"/>',
    text: 'waits',
    isIn: ({ waits }) => waits.length > 0,
  },
  {
    shape: '<rect class="hold" x="1" y="2" width="32" height="12"/>',
    text: 'holds the lock',
    isIn: ({ holds }) => holds.length > 0,
  },
  {
    shape: '<rect class="tx" x="2" y="2" width="30" height="12"/>',
    text: 'transaction, dashed if undone',
    isIn: ({ transactions }) => transactions.length > 0,
  },
  {
    shape: '<rect class="both" x="1" y="2" width="32" height="12"/>',
    text: 'not alone',
    isIn: ({ overlaps }) => overlaps.length > 0,
  },
  {
    shape: '<rect class="pause" x="1" y="2" width="32" height="12"/>',
    text: 'process stands still',
    isIn: ({ pauses }) => pauses.length > 0,
  },
  {
    shape: '<path class="commit" d="M17 1l7 7-7 7-7-7z"/>',
    text: 'committed',
    isIn: ({ transactions }) => transactions.some(({ endedBy }) => endedBy === 'committed'),
  },
  {
    shape: '<path class="rollback" d="M12 3l10 10m0-10l-10 10"/>',
    text: 'rolled back',
    isIn: ({ transactions }) => transactions.some(({ endedBy }) => endedBy === 'rolled back'),
  },
  {
    shape: '<path class="command" d="M17 4v10"/>',
    text: 'Redis command',
    isIn: ({ commands }) => commands.length > 0,
  },
  {
    shape: '<rect class="key" x="1" y="5" width="32" height="6" rx="3"/>',
    text: 'key exists in Redis',
    isIn: ({ keys }) => keys.length > 0,
  },
];

/** The signs that a reader of these pictures meets. */
export function signsIn(...timelines: readonly Timeline[]): Sign[] {
  return SIGNS.filter(({ isIn }) => timelines.some(isIn));
}

interface Place {
  readonly top: number;
  readonly width: number;
}

interface Placed {
  readonly parts: string[];
  readonly bottom: number;
}

/** The width of a letter at 12 px, in the widest of the fonts that a reader may have. */
const LETTER = 7;
const LINE = 17;

/** What the signs mean, in as many lines as they need. */
export function legendSvg(signs: readonly Sign[], { top, width }: Place): Placed {
  let left = 12;
  let line = top;
  const parts = signs.map(({ shape, text }) => {
    const room = 34 + 6 + text.length * LETTER;
    if (left > 12 && left + room > width - 8) {
      left = 12;
      line += 22;
    }
    const x = roundForSvg(left);
    left += room + 16;
    return (
      `<g transform="translate(${x} ${line})">${shape}` +
      `<text x="40" y="12">${escapeMarkup(text)}</text></g>`
    );
  });
  return { parts, bottom: line + 26 };
}

/** What happened at the numbers of a picture. */
export function momentsSvg(moments: readonly Moment[], { top, width }: Place): Placed {
  const left = 92;
  const letters = Math.floor((width - left - 12) / LETTER);
  let y = top;
  const parts = moments.map(({ at, kind, text }, n) => {
    const lines = wrapped(text, letters);
    const first = y + 12;
    y += lines.length * LINE + 2;
    const rows = lines.map(
      (words, row) =>
        `<tspan x="${left}" y="${roundForSvg(first + row * LINE)}">${escapeMarkup(words)}</tspan>`,
    );
    return (
      `<g class="moment ${kind}"><circle cx="20" cy="${first - 4}" r="8"/>` +
      `<text x="20" y="${first}" text-anchor="middle">${n + 1}</text></g>` +
      `<text x="36" y="${first}">${milliseconds(at)}</text><text>${rows.join('')}</text>`
    );
  });
  return { parts, bottom: y + (moments.length > 0 ? 8 : 0) };
}

/** Breaks a text into lines of at most so many letters, unless a word is longer. */
export function wrapped(text: string, letters: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= letters) {
      lines[lines.length - 1] = `${last} ${word}`;
    } else {
      lines.push(word);
    }
  }
  return lines;
}
