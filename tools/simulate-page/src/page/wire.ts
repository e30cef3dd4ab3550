import type { FlightView } from '../view.js';
import { colourOf, make } from './make.js';

/** The way between a process and the server, and the messages on it. */
export class Wire {
  readonly element: HTMLElement;
  readonly #messages = new Map<number, HTMLElement>();

  constructor(readonly name: string) {
    this.element = make(
      'div',
      { class: 'wire', 'aria-hidden': 'true', style: `--of:${colourOf(name)}` },
      make('span', { class: 'end' }, name),
      make('span', { class: 'end there' }, 'Redis'),
    );
  }

  show(flights: readonly FlightView[], isCut: boolean): void {
    this.element.classList.toggle('cut', isCut);
    const own = flights.filter(({ process }) => process === this.name);
    for (const [id, element] of this.#messages) {
      if (own.some((flight) => flight.id === id)) continue;
      element.remove();
      this.#messages.delete(id);
    }
    for (const isToServer of [true, false]) {
      const shown = own.filter((flight) => flight.isToServer === isToServer);
      shown.forEach((flight, i) => this.#place(flight, i));
    }
  }

  /** @param level of its label, so that one does not cover the other */
  #place({ id, label, isToServer, isTelling, progress }: FlightView, level: number): void {
    let element = this.#messages.get(id);
    if (element === undefined) {
      const direction = isToServer ? 'there' : 'back';
      const css = `message ${direction}${isTelling ? '' : ' faint'}`;
      element = make('span', { class: css }, make('i'), make('em', {}, label));
      this.#messages.set(id, element);
      this.element.append(element);
    }
    element.classList.toggle('held', progress === undefined);
    element.style.setProperty('--level', String(Math.min(level, 2)));
    const share = progress ?? 0.5;
    element.style.setProperty('--at', String(isToServer ? share : 1 - share));
  }
}
