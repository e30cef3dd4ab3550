import type { Outcome } from './scenario.js';

/** The mark and the figure of an outcome, as expectations are written. */
export function markedFigure({ holds, figure }: Outcome): string {
  return `${markOf(holds)} ${figure}`.trimStart();
}

/** Nothing where a mark would be an opinion. */
export function markOf(holds: boolean | undefined): '✓' | '✗' | '' {
  if (holds === undefined) return '';
  return holds ? '✓' : '✗';
}

/** Whether this is one of the outcomes that are written down, in which `#` is any number. */
export function isExpected(outcome: Outcome, expected: string | readonly string[]): boolean {
  return [expected].flat().some((text) => {
    const parts = text.split('#').map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
    return new RegExp(`^${parts.join(NUMBER)}$`).test(markedFigure(outcome));
  });
}

const NUMBER = String.raw`\d+(?:\.\d+)?`;
