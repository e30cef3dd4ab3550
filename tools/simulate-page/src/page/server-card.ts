import type { ActionName, KeyView, ServerView } from '../view.js';
import { button, chip, colourOf, fill, make, seconds, write } from './make.js';

const STATES: Readonly<Record<ServerView['state'], string>> = {
  up: 'answers',
  paused: 'stands still',
  down: 'away',
};

/** The server: who has each key and for how long, who waits, and what can be done to it. */
export class ServerCard {
  readonly element: HTMLElement;
  readonly #state = make('span', { class: 'state' });
  readonly #keys = make('div', { class: 'keys' });
  readonly #fence = make('small', { class: 'fence' });

  constructor(act: (what: ActionName) => void) {
    this.element = make(
      'section',
      { class: 'card server', 'aria-label': 'Redis' },
      make('header', {}, make('b', {}, 'Redis'), this.#state),
      this.#keys,
      this.#fence,
      make(
        'div',
        { class: 'buttons' },
        button('Restart', 'Restart Redis with its data', () => act('restart')),
        button('Lose data', 'Restart Redis without its data', () => act('lose')),
        button('Fail over', 'Fail over to a replica that lags 50 ms behind', () => act('failover')),
      ),
    );
  }

  show({ state, keys, fence }: ServerView): void {
    this.element.dataset['state'] = state;
    write(this.#state, STATES[state]);
    write(this.#fence, fence === undefined ? '' : `fencing numbers: at most ${fence}`);
    const sign = JSON.stringify([state, keys.map(signOf)]);
    fill(this.#keys, sign, () =>
      keys.length > 0
        ? keys.map(keyElement)
        : [make('p', { class: 'nobody' }, 'No key is locked yet.')],
    );
  }
}

/** Changes often enough for the bar to move. */
function signOf({ leftMs, ...others }: KeyView): unknown {
  return [others, Math.round(leftMs / 20)];
}

function keyElement({ key, owner, leftMs, leaseMs, queue }: KeyView): HTMLElement {
  const share = leaseMs > 0 ? Math.max(0, Math.min(100, (leftMs / leaseMs) * 100)) : 0;
  const waiting = queue.length === 0 ? ['nobody waits'] : ['next: ', ...queue.map(chip)];
  return make(
    'div',
    { class: 'key' },
    make('code', {}, key),
    make(
      'div',
      { class: 'owner' },
      owner === undefined ? make('span', { class: 'nobody' }, 'free') : chip(owner),
      make('small', {}, owner === undefined ? '' : `lease: ${seconds(leftMs)} left`),
    ),
    make(
      'div',
      { class: 'lease', style: `--of:${colourOf(owner ?? '')}` },
      make('i', { style: `width:${share}%` }),
    ),
    make('div', { class: 'queue' }, ...waiting),
  );
}
