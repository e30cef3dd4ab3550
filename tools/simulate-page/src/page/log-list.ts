import type { LogLine } from '../view.js';
import { fill, make } from './make.js';

/** What has happened, the newest first. */
export class LogList {
  readonly element: HTMLElement;
  readonly #list = make('ol');

  constructor() {
    const attributes = { class: 'log', role: 'region', 'aria-label': 'Log', tabindex: '0' };
    this.element = make('div', attributes, this.#list);
  }

  show(log: readonly LogLine[]): void {
    const sign = `${log.length} ${log[0]?.at} ${log[0]?.text}`;
    fill(this.#list, sign, () => log.map(lineElement));
  }
}

function lineElement({ at, text, tone }: LogLine): HTMLElement {
  const time = make('time', {}, (at / 1_000).toFixed(3));
  return make('li', { class: tone }, time, make('span', {}, text));
}
