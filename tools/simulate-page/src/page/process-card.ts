import type { ActionName, CallView, LogLine, ProcessView } from '../view.js';
import { button, chip, colourOf, fill, make, seconds, write } from './make.js';

/** More calls than these are only counted. */
const SHOWN_CALLS = 2;

/** One process: whether it runs, what its calls do, and what can be done to it. */
export class ProcessCard {
  readonly element: HTMLElement;
  readonly #state = make('span', { class: 'state' });
  readonly #calls = make('ul', { class: 'calls' });
  readonly #kill: HTMLButtonElement;
  readonly #pause: HTMLButtonElement;
  readonly #cut: HTMLButtonElement;
  #shown: ProcessView | undefined;

  constructor(
    readonly name: string,
    act: (what: ActionName, process: string) => void,
  ) {
    const press = (both: readonly [ActionName, ActionName], isSecond: () => boolean) => () =>
      act(both[isSecond() ? 1 : 0], name);
    this.#kill = button(
      'Kill',
      `Kill ${name}`,
      press(['kill', 'start'], () => this.#shown?.state === 'dead'),
    );
    this.#pause = button(
      'Pause',
      `Pause ${name}`,
      press(['pause', 'resume'], () => this.#shown?.state === 'paused'),
    );
    this.#cut = button(
      'Cut off',
      `Cut ${name} off`,
      press(['cut', 'restore'], () => this.#shown?.isCut === true),
    );
    this.element = make(
      'section',
      { class: 'card process', 'aria-label': `Process ${name}`, style: `--of:${colourOf(name)}` },
      make(
        'header',
        {},
        chip(name),
        this.#state,
        make('div', { class: 'buttons' }, this.#pause, this.#kill, this.#cut),
      ),
      this.#calls,
    );
  }

  show(view: ProcessView, now: number): void {
    this.#shown = view;
    const { state, isCut } = view;
    this.element.dataset['state'] = state;
    write(this.#state, state === 'alive' && isCut ? 'cut off' : STATES[state]);
    rename(this.#kill, state === 'dead' ? 'Start again' : 'Kill', this.name);
    rename(this.#pause, state === 'paused' ? 'Continue' : 'Pause', this.name);
    rename(this.#cut, isCut ? 'Reconnect' : 'Cut off', this.name);
    const isRunning = state === 'alive' || state === 'paused';
    this.#kill.disabled = !isRunning && state !== 'dead';
    this.#pause.disabled = !isRunning;
    this.#cut.disabled = !isRunning && !isCut;
    const lines = linesOf(view, now);
    fill(this.#calls, JSON.stringify(lines), () => lines.map(lineElement));
  }
}

const STATES: Readonly<Record<ProcessView['state'], string>> = {
  'not started': 'not started yet',
  alive: 'running',
  paused: 'stands still',
  dead: 'dead',
  closed: 'closed',
};

function rename(element: HTMLButtonElement, text: string, process: string): void {
  write(element, text);
  const label = `${text} ${process}`;
  element.title = label;
  element.setAttribute('aria-label', label);
}

interface Line {
  readonly tone: 'holding' | 'waiting' | 'idle' | 'late' | LogLine['tone'];
  readonly text: string;
  readonly detail: string;
}

function linesOf({ calls, state, trouble }: ProcessView, now: number): readonly Line[] {
  const inOrder = calls.toSorted((a, b) => ORDER[a.state] - ORDER[b.state]);
  const lines = inOrder.slice(0, SHOWN_CALLS).map((call) => lineOf(call, state, now));
  const more = inOrder.length - lines.length;
  if (more > 0) lines.push({ tone: 'idle', text: `and ${more} more`, detail: '' });
  if (lines.length === 0 && state === 'alive') {
    lines.push({ tone: 'idle', text: 'wants nothing now', detail: '' });
  }
  if (trouble !== undefined) {
    const text = trouble.text.replace(/^p\d /, '');
    lines.push({ tone: 'bad', text, detail: `at ${seconds(trouble.at)}` });
  }
  return lines;
}

const ORDER = { holding: 0, releasing: 1, waiting: 2 } as const;

function lineOf(call: CallView, state: ProcessView['state'], now: number): Line {
  const key = call.keys.join(', ');
  switch (call.state) {
    case 'waiting':
      return { tone: 'waiting', text: `waits for ${key}`, detail: seconds(now - call.since) };
    case 'releasing':
      if (call.isLost) return { tone: 'idle', text: 'ends', detail: '' };
      return { tone: 'idle', text: `releases ${key}`, detail: '' };
    case 'holding': {
      const left = call.until - now;
      if (left > 0) {
        return { tone: 'holding', text: `holds ${key}`, detail: `sure for ${seconds(left)}` };
      }
      const text =
        state === 'paused' ? `held ${key}, and does not know that it is over` : `held ${key}`;
      return { tone: 'late', text, detail: `over for ${seconds(-left)}` };
    }
  }
}

function lineElement({ tone, text, detail }: Line): HTMLElement {
  return make('li', { class: tone }, make('span', {}, text), make('small', {}, detail));
}
