import { make } from './make.js';

const SAMPLES: readonly (readonly [css: string, text: string])[] = [
  ['waiting', 'waits for the key'],
  ['holding', 'holds it, and may act'],
  ['late', 'its time is over: it may not act, and is told as soon as it runs'],
  ['lease', 'in the row of a key: the lease in Redis, in the colour of its process'],
  ['paused', 'stands still'],
  ['dead', 'dead'],
  ['there', 'a message to Redis'],
  ['back', 'from Redis, in the colour of the process that hears it'],
];

/** What the colours and the words mean. */
export function legend(): HTMLElement {
  const samples = SAMPLES.map(([css, text]) =>
    make('li', {}, make('i', { class: `sample ${css}` }), make('span', {}, text)),
  );
  return make(
    'div',
    { class: 'legend' },
    make('ul', {}, ...samples),
    make(
      'p',
      {},
      'A lease is renewed while its process runs. A fence is a number that rises with each holder, so that a ' +
        'database can refuse the one before. Messages are shown in slow motion.',
    ),
  );
}
