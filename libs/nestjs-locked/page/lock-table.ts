import type { LookMessage, ShownLock, ShownQueue } from '../src/dashboard/dashboard-messages.js';
import { find, make, update, write } from './make.js';
import { caller, callOf, count, duration, heldFor, holder, lease, shortened } from './text.js';

/** The list of keys, of which one can be opened to see its queue. */
export class LockTable {
  readonly #body = find('#locks tbody');
  readonly #rows = new Map<string, Row>();
  readonly #detail: Detail;
  #open: string | undefined;

  constructor(onRelease: (lock: ShownLock) => void) {
    this.#detail = new Detail(onRelease);
  }

  /** @param mayRelease whether there is a button to release a lock */
  show({ locks, at }: LookMessage, mayRelease: boolean): void {
    const focused = document.activeElement;
    this.#keep(new Set(locks.map(({ key }) => key)));
    let before: Element | null = null;
    for (const lock of locks) {
      const row = this.#rowOf(lock.key);
      row.show(lock, at, this.#open === lock.key);
      before = this.#place(row.element, before);
      if (this.#open === lock.key) before = this.#place(this.#detail.element, before);
    }
    // An element that is moved loses the focus.
    if (focused instanceof HTMLElement && focused.isConnected)
      focused.focus({ preventScroll: true });
    this.#detail.mayRelease = mayRelease;
    if (this.#open !== undefined) void this.#detail.load(this.#open);
  }

  /** Removes the other rows. Those that stay are then where they should be, as a rule. */
  #keep(keys: ReadonlySet<string>): void {
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      if (key === this.#open) this.#close();
      row.element.remove();
      this.#rows.delete(key);
    }
  }

  /** @returns the element, which comes after the other one now */
  #place(element: Element, before: Element | null): Element {
    const next = before === null ? this.#body.firstElementChild : before.nextElementSibling;
    if (next !== element) this.#body.insertBefore(element, next);
    return element;
  }

  #rowOf(key: string): Row {
    let row = this.#rows.get(key);
    if (row === undefined) {
      row = new Row(key, () => this.#toggle(key));
      this.#rows.set(key, row);
    }
    return row;
  }

  #toggle(key: string): void {
    const wasOpen = this.#open === key;
    this.#close();
    if (wasOpen) return;
    this.#open = key;
    const row = this.#rows.get(key) as Row;
    row.isOpen = true;
    row.element.after(this.#detail.element);
    void this.#detail.load(key);
  }

  #close(): void {
    const row = this.#rows.get(this.#open ?? '');
    if (row !== undefined) row.isOpen = false;
    this.#open = undefined;
    this.#detail.clear();
  }
}

class Row {
  readonly element = make('tr');
  readonly #button: HTMLButtonElement;
  readonly #cells: Readonly<
    Record<'waiting' | 'oldest' | 'holder' | 'call' | 'held' | 'lease' | 'fence', HTMLElement>
  >;

  constructor(key: string, onToggle: () => void) {
    this.#button = make('button', { class: 'key', type: 'button', 'aria-expanded': 'false' });
    this.#button.append(make('bdi', {}, shortened(key)));
    this.#button.addEventListener('click', onToggle);
    const cell = (classes: string): HTMLElement => make('td', { class: classes });
    this.#cells = {
      waiting: cell('number waiting'),
      oldest: cell('number oldest'),
      holder: cell('wide'),
      call: cell('wide'),
      held: cell('number'),
      lease: cell('number wide'),
      fence: cell('number wide'),
    };
    for (const name of ['holder', 'call'] as const) {
      this.#cells[name].append(make('bdi', { class: 'cut' }));
    }
    this.element.append(make('th', { scope: 'row' }, this.#button), ...Object.values(this.#cells));
  }

  set isOpen(isOpen: boolean) {
    this.#button.setAttribute('aria-expanded', String(isOpen));
  }

  show(lock: ShownLock, at: number, isOpen: boolean): void {
    const { waiting, oldest, holder: by, call, held, lease: left, fence } = this.#cells;
    this.isOpen = isOpen;
    this.element.classList.toggle('wanted', lock.waiters > 0);
    write(waiting, count(lock.waiters));
    write(oldest, lock.waiters === 0 ? '' : duration(lock.oldestWaitMs));
    write(by.firstElementChild as Element, holder(lock));
    write(call.firstElementChild as Element, callOf(lock));
    write(held, heldFor(lock, at));
    write(left, lease(lock));
    write(
      fence,
      lock.fencingToken === null || lock.mode === 'permit' ? '' : String(lock.fencingToken),
    );
  }
}

/** The row below the one that is open. */
class Detail {
  readonly element = make('tr', { class: 'detail' });
  readonly #cell = make('td', { colspan: '8' });
  readonly #facts = make('dl');
  readonly #title = make('h3');
  readonly #queue = make('ol');
  readonly #release = make('button', { type: 'button', class: 'danger' }, 'Release…');
  #key: string | undefined;
  #lock: ShownLock | undefined;
  mayRelease = false;

  constructor(onRelease: (lock: ShownLock) => void) {
    const about = make('div', {}, this.#facts, this.#release);
    const waiting = make('div', {}, this.#title, this.#queue);
    this.#cell.append(make('div', { class: 'columns' }, about, waiting));
    this.element.append(this.#cell);
    this.#release.addEventListener('click', () => {
      if (this.#lock !== undefined) onRelease(this.#lock);
    });
    this.clear();
  }

  clear(): void {
    this.element.remove();
    this.#key = undefined;
    this.#lock = undefined;
    this.#facts.replaceChildren();
    this.#queue.replaceChildren();
    write(this.#title, '');
    this.#release.hidden = true;
  }

  /** Asks for a lock, unless another one is opened meanwhile. */
  async load(key: string): Promise<void> {
    this.#key = key;
    const query = new URLSearchParams(location.search);
    query.set('key', key);
    const found = await fetch(`lock?${query}`)
      .then((response) =>
        response.ok ? (response.json() as Promise<ShownQueue | null>) : undefined,
      )
      .catch(() => undefined); // the stream says why
    if (found === undefined || this.#key !== key) return;
    if (found === null) write(this.#title, 'Nobody holds it any more.');
    else this.#show(found);
  }

  #show({ lock, holders, queue }: ShownQueue): void {
    this.#lock = lock;
    this.#release.hidden = !this.mayRelease || lock.state === 'revoked';
    const { holder: by, since } = lock;
    const facts: [name: string, text: string][] = [
      ['Key', shortened(lock.key)],
      ['Holder', holder(lock)],
      ['Call', callOf(lock)],
      ['Process', by === null || lock.leases > 1 ? '' : by.processId],
      ['Since', since === null ? '' : `${new Date(since).toISOString()} (by its own clock)`],
      ['Lease left', lease(lock)],
      ['Fence', lock.leases > 1 || lock.mode === 'permit' ? '' : fenceOf(lock)],
    ];
    const shownFacts = facts.filter(([, text]) => text !== '');
    const pairs = shownFacts.flatMap(([name, text]) => [
      make('dt', {}, name),
      make('dd', {}, make('bdi', {}, text)),
    ]);
    if (lock.leases > 1) {
      const name = lock.mode === 'permit' ? 'Permits' : 'Readers';
      const each = holders.map((it) => make('li', {}, make('bdi', {}, caller(it))));
      pairs.push(make('dt', {}, name), make('dd', {}, make('ol', {}, ...each)));
    }
    update(this.#facts, make('dl', {}, ...pairs));
    const more = lock.waiters - queue.length;
    write(
      this.#title,
      lock.waiters === 0
        ? 'Nobody waits.'
        : `Waiting, in order${more > 0 ? ` (and ${count(more)} more)` : ''}`,
    );
    const waiters = queue.map((waiter) => {
      return make('li', {}, make('bdi', {}, caller(waiter)), `, for ${duration(waiter.waitedMs)}`);
    });
    update(this.#queue, make('ol', {}, ...waiters));
  }
}

function fenceOf({ fencingToken }: ShownLock): string {
  return fencingToken === null ? 'known only in the holder’s process' : String(fencingToken);
}
