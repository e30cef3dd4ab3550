import { BASE_COLOURS, escapeMarkup, roundForSvg, svgPicture } from 'kit';
import type { Span } from '../run/spans.js';
import { legendSvg, momentsSvg, signsIn, wrapped } from './picture-legend.js';
import { milliseconds, period, type Timeline } from './timeline-model.js';

export interface TimelineOptions {
  /** What the picture shows, for readers who cannot see it. */
  readonly label: string;
  /** True for a file that stands alone: it has its own colours, background and legend. */
  readonly standalone?: boolean;
  /** A line of text above the picture, in a file that stands alone. */
  readonly heading?: string;
  /** True to leave out the numbers, the text that they refer to, and the legend. */
  readonly bare?: boolean;
  /** @default WIDE */
  readonly width?: number;
}

/** The widths of pictures in which text is as large as in a page: across a page, beside text, and on a phone. */
export const WIDE = 1000;
export const HALF = 580;
export const NARROW = 380;

const LEFT = 48;
const RIGHT = 12;
const AXIS = 24;
const NUMBERS = 22;
/** The width of a letter of a heading. */
const HEADING_LETTER = 9;

/** One lane for each caller: waiting is light, holding is solid, a transaction is outlined, and an overlap is red. */
export function timelineSvg(timeline: Timeline, options: TimelineOptions): string {
  return new Drawing(timeline, options).svg();
}

class Drawing {
  /** Whether there are so many lanes that only their bars are drawn. */
  readonly #isCrowded: boolean;
  readonly #laneHeight: number;
  readonly #headHeight: number;
  /** Where the lanes begin and end. */
  readonly #top: number;
  readonly #bottom: number;
  readonly #width: number;
  /** The lines of the heading. */
  readonly #heading: readonly string[];

  constructor(
    private readonly timeline: Timeline,
    private readonly options: TimelineOptions,
  ) {
    const { lanes } = timeline;
    this.#width = options.width ?? WIDE;
    this.#isCrowded = lanes.length > 6;
    this.#laneHeight = this.#isCrowded ? 15 : 34;
    this.#heading = wrapped(options.heading ?? '', Math.floor((this.#width - 24) / HEADING_LETTER));
    this.#headHeight = options.heading === undefined ? 0 : 8 + 18 * this.#heading.length;
    this.#top = this.#headHeight + AXIS + (options.bare === true ? 0 : NUMBERS);
    this.#bottom = this.#top + lanes.length * this.#laneHeight + gaps(lanes) * 8;
  }

  svg(): string {
    const { heading, label, bare = false, standalone = false } = this.options;
    const { keys, lanes, transactions } = this.timeline;
    const hasKey = keys.length > 0 && !this.#isCrowded;
    const head = this.#heading.map(
      (line, n) => `<text class="heading" x="12" y="${20 + n * 18}">${escapeMarkup(line)}</text>`,
    );
    const bottom = this.#bottom + (hasKey ? 24 : 0) + 8;
    const below = standalone && !bare ? this.#explained(bottom + 4) : { parts: [], bottom };
    return svgPicture({
      width: this.#width,
      height: below.bottom,
      label,
      attributes: ' class="timeline" tabindex="0"',
      ...(standalone && {
        own: { light: LIGHT, dark: DARK, style: TIMELINE_STYLE.replaceAll('\n', '') },
      }),
      parts: [
        ...(heading === undefined ? [] : head),
        ...this.#axis(),
        ...this.#bands(),
        ...lanes.map((lane) => this.#laneLabel(lane)),
        ...this.#bars(),
        ...(this.#isCrowded ? [] : transactions.map((span) => this.#endMark(span))),
        ...(this.#isCrowded ? [] : this.#commandTicks()),
        ...(hasKey ? this.#keyBar() : []),
        ...(bare ? [] : this.#moments()),
        ...below.parts,
      ],
    });
  }

  /** What the numbers and the colours mean, below the picture. */
  #explained(top: number): { parts: string[]; bottom: number } {
    const { moments } = this.timeline;
    const story = momentsSvg(moments, { top, width: this.#width });
    const legend = legendSvg(signsIn(this.timeline), { top: story.bottom, width: this.#width });
    return { parts: [...story.parts, ...legend.parts], bottom: legend.bottom };
  }

  #x(at: number): number {
    const share = Math.min(1, Math.max(0, at / this.timeline.ms));
    return roundForSvg(LEFT + share * (this.#width - LEFT - RIGHT));
  }

  #y(lane: string): number {
    const { lanes } = this.timeline;
    const n = lanes.indexOf(lane);
    return this.#top + n * this.#laneHeight + gaps(lanes.slice(0, n + 1)) * 8;
  }

  /** A bar that is as long as the time that it stands for. */
  #rect(
    css: string,
    { from, until }: Omit<Span, 'lane'>,
    top: number,
    height: number,
    rest = '',
  ): string {
    const left = this.#x(from);
    const width = Math.max(1.5, roundForSvg(this.#x(until) - left));
    return `<rect class="${css}" x="${left}" y="${top}" width="${width}" height="${height}"${rest}/>`;
  }

  #axis(): string[] {
    const { ms } = this.timeline;
    const most = this.#width / 125;
    const step =
      [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000].find((size) => ms / size <= most) ?? 10_000;
    return Array.from({ length: Math.floor(ms / step) + 1 }, (_, n) => {
      const x = this.#x(n * step);
      const label = n === 0 ? '0' : milliseconds(n * step).replace(/\.?0+ s$/, ' s');
      const anchor = n === 0 ? 'start' : 'middle';
      return (
        `<line class="grid" x1="${x}" x2="${x}" y1="${this.#top - 4}" y2="${this.#bottom}"/>` +
        `<text class="tick" x="${x}" y="${this.#headHeight + 14}" text-anchor="${anchor}">${label}</text>`
      );
    });
  }

  /** Where callers overlap, across all lanes. */
  #bands(): string[] {
    const merged: { from: number; until: number }[] = [];
    for (const { from, until } of [...this.timeline.overlaps].sort((a, b) => a.from - b.from)) {
      const last = merged.at(-1);
      if (last !== undefined && from <= last.until) last.until = Math.max(last.until, until);
      else merged.push({ from, until });
    }
    const height = this.#bottom - this.#top + 2;
    return merged.map((span) => this.#rect('band', span, this.#top - 2, height));
  }

  #laneLabel(lane: string): string {
    const css = this.#isCrowded ? 'lane small' : 'lane';
    const baseline = roundForSvg(this.#y(lane) + this.#laneHeight / 2 + 4);
    return `<text class="${css}" x="${LEFT - 8}" y="${baseline}" text-anchor="end">${escapeMarkup(lane)}</text>`;
  }

  /** What each caller did, one kind upon the other. */
  #bars(): string[] {
    const { waits, holds, overlaps, pauses, transactions } = this.timeline;
    const size = this.#isCrowded ? 0 : 1;
    const corners = ` rx="${1 + size}"`;
    const bar = (css: string, inset: number, text: string, span: Span): string => {
      const took = milliseconds(span.until - span.from);
      const tip = tipOf(`${span.lane} ${text}: ${period(span)} (${took})`);
      const height = this.#laneHeight - 2 * inset;
      return this.#rect(css, span, this.#y(span.lane) + inset, height, corners + tip);
    };
    const together = overlaps.flatMap(({ first, second, from, until }) =>
      [first, second].map(({ lane }) => ({ lane, from, until })),
    );
    const inset = 2 + 5 * size;
    return [
      ...waits.map((span) => bar('wait', 4 + 8 * size, 'waits', span)),
      ...holds.map((span) => bar('hold', inset, 'holds the lock', span)),
      ...together.map((span) => bar('both', inset, 'is not alone', span)),
      ...pauses.map((span) => bar('pause', inset, 'stands still', span)),
      ...transactions.map((span) => {
        const { endedBy } = span;
        const css = `tx${endedBy === 'committed' ? '' : ' undone'}${size ? '' : ' fine'}`;
        const end = endedBy === 'committed' || endedBy === 'rolled back' ? endedBy : 'cut';
        return bar(css, 1 + 2 * size, `has a transaction open, ${end}`, span);
      }),
    ];
  }

  #endMark({ lane, until, endedBy }: Timeline['transactions'][number]): string {
    const isCommitted = endedBy === 'committed';
    if (!isCommitted && endedBy !== 'rolled back') return '';
    const x = this.#x(until);
    const middle = this.#y(lane) + this.#laneHeight / 2;
    const words = isCommitted ? 'has committed' : 'has rolled back';
    const tip = tipOf(`${lane} ${words}: ${milliseconds(until)}`);
    return isCommitted
      ? `<path class="commit" d="M${x} ${middle - 7}l7 7-7 7-7-7z"${tip}/>`
      : `<path class="rollback" d="M${x - 5} ${middle - 5}l10 10m0-10l-10 10"${tip}/>`;
  }

  #commandTicks(): string[] {
    return this.timeline.commands.map(({ lane, at, text }) => {
      const top = this.#y(lane) + this.#laneHeight - 6;
      const tip = tipOf(`${lane} ${text}: ${milliseconds(at)}`);
      return `<path class="command" d="M${this.#x(at)} ${top}v6"${tip}/>`;
    });
  }

  /** When the key was in Redis. */
  #keyBar(): string[] {
    const y = this.#bottom + 15;
    return [
      `<text class="lane small" x="${LEFT - 8}" y="${y + 4}" text-anchor="end">key</text>`,
      `<line class="grid" x1="${this.#x(0)}" x2="${this.#x(this.timeline.ms)}" y1="${y}" y2="${y}"/>`,
      ...this.timeline.keys.map((span) => {
        const tip = tipOf(`the key is in Redis: ${period(span)}`);
        return this.#rect('key', span, y - 3, 6, ` rx="3"${tip}`);
      }),
    ];
  }

  #moments(): string[] {
    const { lanes, moments } = this.timeline;
    const middle = this.#top - NUMBERS + 6;
    let before = -Infinity;
    return moments.map(({ at, lane, kind, text }, n) => {
      const x = this.#x(at);
      const badge = Math.min(this.#width - 10, Math.max(x, before + 18));
      before = badge;
      const end = lanes.includes(lane) ? this.#y(lane) + this.#laneHeight : this.#bottom;
      return (
        `<g class="moment ${kind}"${tipOf(`${text}: ${milliseconds(at)}`)}>` +
        `<path d="M${badge} ${middle + 2}L${x} ${this.#top - 4}V${end}"/>` +
        `<circle cx="${badge}" cy="${middle}" r="8"/>` +
        `<text x="${badge}" y="${middle + 4}" text-anchor="middle">${n + 1}</text></g>`
      );
    });
  }
}

/** There is a little more room between two processes. */
function gaps(lanes: readonly string[]): number {
  const processes = lanes.map((lane) => /^(\d+)\./.exec(lane)?.[1] ?? '');
  return processes.filter((name, n) => n > 0 && name !== processes[n - 1]).length;
}

function tipOf(text: string): string {
  return ` data-tip="${escapeMarkup(text)}"`;
}

/** The same names as in the page, for both colour schemes. */
export const LIGHT = {
  ...BASE_COLOURS.light,
  wait: '#c3cedd',
  hold: '#2f6fde',
  both: '#d92d3a',
  band: 'rgba(217, 45, 58, 0.13)',
  tx: '#16233b',
  key: '#8795aa',
  commit: '#0d8050',
  late: '#9a5700',
  mark: '#1c2430',
  onMark: '#ffffff',
};

export const DARK: Readonly<Record<keyof typeof LIGHT, string>> = {
  ...BASE_COLOURS.dark,
  wait: '#46536a',
  hold: '#5b95ff',
  both: '#ff5c66',
  band: 'rgba(255, 92, 102, 0.2)',
  tx: '#e8ecf3',
  key: '#75849b',
  commit: '#3ddc97',
  late: '#ffb45c',
  mark: '#e8ecf3',
  onMark: '#12161d',
};

export const TIMELINE_STYLE = `
.timeline text{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:12px;fill:var(--soft)}
.timeline .lane{font-size:14px;font-weight:600;fill:var(--ink)}
.timeline .lane.small{font-size:11.5px;font-weight:500;fill:var(--soft)}
.timeline .heading{font-size:14.5px;font-weight:600;fill:var(--ink)}
.timeline .grid{stroke:var(--line);stroke-width:1}
.timeline .wait{fill:var(--wait)}
.timeline .hold{fill:var(--hold)}
.timeline .both{fill:var(--both)}
.timeline .band{fill:var(--band)}
.timeline .pause{fill:var(--page);fill-opacity:.62;stroke:var(--ink);stroke-width:1;stroke-dasharray:3 3}
.timeline .tx{fill:none;pointer-events:stroke;stroke:var(--tx);stroke-width:1.25}
.timeline .fine{stroke-width:.7}
.timeline .tx.undone{stroke-dasharray:4 3}
.timeline .commit{fill:var(--commit);stroke:var(--page);stroke-width:1.5}
.timeline .rollback{stroke:var(--both);stroke-width:2.5;fill:none;stroke-linecap:round}
.timeline .command{stroke:var(--soft);stroke-width:1.5}
.timeline .key{fill:var(--key)}
.timeline .moment path{stroke:var(--mark);stroke-width:1.25;fill:none;stroke-dasharray:2 3}
.timeline .moment circle{fill:var(--mark)}
.timeline .moment text{fill:var(--onMark);font-weight:700;font-size:11.5px}
.timeline .moment.killed path,.timeline .moment.failed path{stroke:var(--both);stroke-dasharray:none}
.timeline .moment.killed circle,.timeline .moment.failed circle{fill:var(--both)}
.timeline .moment.told circle{fill:var(--commit)}
.timeline .moment.late circle{fill:var(--late)}
`.trim();
