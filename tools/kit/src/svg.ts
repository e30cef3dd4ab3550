export type Colours = Readonly<Record<string, string>>;

/** The names of the colours that all pictures share, for both colour schemes. */
export const BASE_COLOURS = {
  light: { page: '#ffffff', ink: '#1c2430', soft: '#5a6576', line: '#dfe3ea' },
  dark: { page: '#12161d', ink: '#e8ecf3', soft: '#a3aec0', line: '#2b3340' },
} as const;

const FONT = 'ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif';

export interface Picture {
  readonly width: number;
  readonly height: number;
  /** What it shows, for readers who cannot see it. */
  readonly label: string;
  /** What else its root element has, written as attributes. */
  readonly attributes?: string;
  /** The parts of it, in the order in which they are painted. */
  readonly parts: readonly string[];
  /** For a file that stands alone: its colours and its style. A picture in a page has those of the page. */
  readonly own?: { readonly light: Colours; readonly dark: Colours; readonly style: string };
}

/** A picture as SVG, which follows the reader's colour scheme. */
export function svgPicture({ width, height, label, attributes = '', parts, own }: Picture): string {
  const style =
    own === undefined
      ? ''
      : `<style>svg{${colourVariables(own.light)}}@media (prefers-color-scheme:dark)` +
        `{svg{${colourVariables(own.dark)}}}.page{fill:var(--page)}text{font-family:${FONT}}` +
        `${own.style}</style><rect class="page" width="${width}" height="${height}" rx="8"/>`;
  return (
    `<svg${attributes} viewBox="0 0 ${width} ${height}" role="img" ` +
    `aria-label="${escapeMarkup(label)}" xmlns="http://www.w3.org/2000/svg">` +
    `${style}${parts.join('')}</svg>`
  );
}

/** The colours as variables of CSS: `--name:value`. */
export function colourVariables(colours: Colours): string {
  return Object.entries(colours)
    .map(([name, value]) => `--${name}:${value}`)
    .join(';');
}

/** Escapes text for HTML and SVG, including attributes. */
export function escapeMarkup(text: string | number): string {
  return String(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

/** One decimal place, which nobody sees. */
export function roundForSvg(value: number): number {
  return Math.round(value * 10) / 10;
}
