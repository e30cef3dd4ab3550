import type { Answer, ReleaseRequest, ShownLock } from '../src/dashboard/dashboard-messages.js';
import { find, write } from './make.js';
import { callOf, holder, shortened, shown } from './text.js';

/** Asks for the key to be typed before a lock is taken away from the holder that is shown. */
export class ReleaseDialog {
  readonly #dialog = find<HTMLDialogElement>('#release');
  readonly #typed = find<HTMLInputElement>('#release-typed');
  readonly #confirm = find<HTMLButtonElement>('#release [type=submit]');
  readonly #problem = find('#release-problem');
  readonly #onReleased: (message: string) => void;
  #lock: ShownLock | undefined;

  constructor(onReleased: (message: string) => void) {
    this.#onReleased = onReleased;
    this.#typed.addEventListener('input', () => {
      this.#confirm.disabled = !this.#isTyped;
    });
    find('#release-cancel').addEventListener('click', () => this.#dialog.close());
    find('#release form').addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#release();
    });
  }

  open(lock: ShownLock): void {
    this.#lock = lock;
    const call = callOf(lock);
    const all = lock.leases > 1 ? ', which all lose it' : '';
    write(find('#release-who'), `Held by ${holder(lock)}${call === '' ? all : `, ${call}`}.`);
    write(find('#release-key'), shown(lock.key));
    write(this.#problem, '');
    this.#typed.value = '';
    this.#confirm.disabled = true;
    this.#dialog.showModal();
    this.#typed.focus();
  }

  /** What cannot be typed may be typed as it is shown. */
  get #isTyped(): boolean {
    const { key } = this.#lock as ShownLock;
    return this.#typed.value === key || this.#typed.value === shown(key);
  }

  async #release(): Promise<void> {
    const lock = this.#lock as ShownLock;
    if (!this.#isTyped) return;
    this.#confirm.disabled = true;
    const { key, leaseId, fencingToken } = lock;
    const body: ReleaseRequest = { key, confirmation: key, leaseId, fencingToken };
    const { isDone, message } = await post(body);
    if (!this.#dialog.open || this.#lock !== lock)
      return this.#onReleased(`${shortened(key)}: ${message}`);
    this.#confirm.disabled = false;
    if (!isDone) return write(this.#problem, message);
    this.#dialog.close();
    this.#onReleased(`${shortened(key)}: ${message}`);
  }
}

async function post(body: ReleaseRequest): Promise<{ isDone: boolean; message: string }> {
  try {
    const response = await fetch(`release${location.search}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { isDone: response.ok, message: await answerOf(response) };
  } catch {
    return {
      isDone: false,
      message: 'No answer: the lock may have been released, or not. Look again.',
    };
  }
}

/** The sentence of an answer, whoever has given it. */
export async function answerOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return shown((JSON.parse(text) as Answer).message);
  } catch {
    return `The server answered ${response.status}.`;
  }
}
