import type { LookMessage, ShownHistory } from '../src/dashboard/dashboard-messages.js';
import { draw, find, make, write } from './make.js';
import { count, duration } from './text.js';

const WIDTH = 180;
const HEIGHT = 32;

interface Kind {
  readonly name: Exclude<keyof ShownHistory, 'slotMs'>;
  readonly title: string;
  readonly scope: string;
  readonly unit: (value: number) => string;
  /** What is shown large. */
  readonly now: (look: LookMessage) => number | null;
  readonly isBad?: (value: number) => boolean;
}

const KINDS: readonly Kind[] = [
  {
    name: 'held',
    title: 'Held',
    scope: 'all processes',
    unit: count,
    now: ({ totals }) => totals && totals.held,
  },
  {
    name: 'waiting',
    title: 'Waiting',
    scope: 'all processes',
    unit: count,
    now: ({ totals }) => totals && totals.waiting,
  },
  {
    name: 'oldestWaitMs',
    title: 'Oldest wait',
    scope: 'all processes',
    unit: duration,
    now: ({ totals }) => totals && totals.oldestWaitMs,
  },
  {
    name: 'losses',
    title: 'Lost, 15 min',
    scope: 'this process',
    unit: count,
    now: ({ history }) => known(history.losses).reduce((sum, value) => sum + value, 0),
    isBad: (value) => value > 0,
  },
  {
    name: 'leastMarginMs',
    title: 'Least margin, 15 min',
    scope: 'this process',
    unit: duration,
    now: ({ history }) => least(known(history.leastMarginMs)),
  },
];

/** The numbers of now, each with its last fifteen minutes. */
export class Numbers {
  readonly #cards = KINDS.map((kind) => new Card(kind));

  constructor() {
    find('#numbers').append(...this.#cards.map(({ element }) => element));
  }

  /** @param isOld there is no newer look, because Redis does not answer */
  show(look: LookMessage, isOld: boolean): void {
    for (const card of this.#cards) card.show(look, isOld);
  }
}

class Card {
  readonly element = make('article', { class: 'number-card' });
  readonly #kind: Kind;
  readonly #value = make('b');
  readonly #summary = make('p', { class: 'hidden' });
  readonly #top = make('span');
  readonly #chart: SVGElement;
  readonly #line = draw('path', { class: 'line' });
  readonly #area = draw('path', { class: 'area' });

  constructor(kind: Kind) {
    this.#kind = kind;
    const size = { viewBox: `0 -1 ${WIDTH} ${HEIGHT + 2}`, preserveAspectRatio: 'none' };
    this.#chart = draw('svg', { ...size, 'aria-hidden': 'true' });
    const axis = draw('path', { class: 'axis', d: `M0 ${HEIGHT}H${WIDTH}` });
    this.#chart.append(axis, this.#area, this.#line);
    const range = make('p', { class: 'range', 'aria-hidden': 'true' }, '15 min', this.#top);
    const title = make('h2', {}, `${kind.title} `, make('small', {}, `(${kind.scope})`));
    this.element.append(title, this.#value, this.#summary, this.#chart, range);
  }

  show(look: LookMessage, isOld: boolean): void {
    const { name, now, unit, isBad } = this.#kind;
    const value = now(look);
    const more = look.totals?.isPartial === true && name === 'held' ? '+' : '';
    write(this.#value, value === null ? '–' : `${unit(value)}${more}`);
    this.element.classList.toggle('bad', value !== null && isBad?.(value) === true);
    this.element.classList.toggle('old', isOld);
    const values = look.history[name];
    const greatest = Math.max(0, ...known(values));
    const smallest = least(known(values)) ?? 0;
    const range = known(values).length === 0 ? '' : `max. ${unit(greatest)}`;
    write(this.#top, range);
    // A chart is read out as its extremes.
    write(
      this.#summary,
      range === '' ? 'No values yet' : `In 15 minutes from ${unit(smallest)} to ${unit(greatest)}`,
    );
    const [line, area] = paths(values, greatest);
    this.#line.setAttribute('d', line);
    this.#area.setAttribute('d', area);
  }
}

/** One stroke for each series of known values: what is unknown is a gap. */
function paths(values: ShownHistory['held'], greatest: number): [line: string, area: string] {
  const step = WIDTH / values.length;
  let line = '';
  let area = '';
  for (let from = 0; from < values.length; from++) {
    if (values[from] === null) continue;
    let to = from;
    let points = '';
    for (; to < values.length && values[to] !== null; to++) {
      const y = HEIGHT - ((values[to] as number) / (greatest || 1)) * HEIGHT;
      points += `L${(to * step).toFixed(1)} ${y.toFixed(1)}H${((to + 1) * step).toFixed(1)}`;
    }
    line += `M${points.slice(1)}`;
    area += `M${(from * step).toFixed(1)} ${HEIGHT}${points}V${HEIGHT}Z`;
    from = to;
  }
  return [line, area];
}

function known(values: ShownHistory['held']): number[] {
  return values.filter((value) => value !== null);
}

function least(values: readonly number[]): number | null {
  return values.length === 0 ? null : Math.min(...values);
}
