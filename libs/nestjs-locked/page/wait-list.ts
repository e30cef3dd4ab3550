import type { ShownWait } from '../src/dashboard/dashboard-messages.js';
import { find, make, update } from './make.js';
import { duration, label, process, shortened } from './text.js';

/** Who holds something and waits for another one, in sentences: a list is read out where a graph is only seen. */
export class WaitList {
  readonly #section = find('#waits');

  show(waits: readonly ShownWait[]): void {
    this.#section.hidden = waits.length === 0;
    const items = waits.map((wait) => itemOf(wait, waits));
    update(find('#waits ol'), make('ol', {}, ...items));
  }
}

function itemOf(wait: ShownWait, waits: readonly ShownWait[]): HTMLElement {
  const { call, key, holds, waitedMs, heldBy, isInRing } = wait;
  const holders = heldBy.flatMap((i) => {
    const other = waits[i];
    return other === undefined ? [] : [other.call];
  });
  return make(
    'li',
    isInRing ? { class: 'ring' } : {},
    ...(isInRing ? [make('strong', {}, 'Deadlock: ')] : []),
    caller(call),
    ' holds ',
    ...holds.flatMap((held, i) => [i === 0 ? '' : ', ', code(held)]),
    ' and has waited ',
    duration(waitedMs),
    ' for ',
    code(key),
    ...holders.flatMap((by, i) => [i === 0 ? ', which is held by ' : ' and ', caller(by)]),
    '.',
  );
}

function caller(call: ShownWait['call']): HTMLElement {
  const name = label(call);
  return make('bdi', {}, name === '' ? process(call) : `${name} (${process(call)})`);
}

function code(key: string): HTMLElement {
  return make('code', {}, make('bdi', {}, shortened(key)));
}
