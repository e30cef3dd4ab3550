/** The page of the dashboard: what it is told is text, and is put in as text. */
import type {
  HelloMessage,
  LogEntry,
  LogMessage,
  LookMessage,
} from '../src/dashboard/dashboard-messages.js';
import { LockTable } from './lock-table.js';
import { find, make, write } from './make.js';
import { Numbers } from './numbers.js';
import { ReleaseDialog } from './release-dialog.js';
import { Stream, type StreamState } from './stream.js';
import { count, duration, shortened, time } from './text.js';
import { WaitList } from './wait-list.js';

const STATES: Record<StreamState, string> = {
  connecting: 'Connecting',
  live: 'Live',
  paused: 'Paused',
  hidden: 'Paused while hidden',
  lost: 'Not connected',
};

const RESULTS: Record<LogEntry['result'], string> = {
  released: 'released',
  refused: 'not released: that lease was over',
  unknown: 'no answer of Redis, so perhaps released',
};

/** How long the filter is left alone before it counts. */
const TYPING_MS = 250;

/** How old the numbers are when the page begins to say so. */
const OLD_MS = 5_000;

const numbers = new Numbers();
const waits = new WaitList();
const dialog = new ReleaseDialog(tell);
const table = new LockTable((lock) => dialog.open(lock));
const filter = find<HTMLInputElement>('#filter');
let hello: HelloMessage | undefined;
/** When the numbers were read, by the clock of the server. */
let readAt = Infinity;
/** What that clock is ahead of ours. */
let aheadMs = 0;
let typing: number | undefined;
let telling: number | undefined;

const stream = new Stream({
  message(event, data) {
    if (event === 'hello') greet(data as HelloMessage);
    else if (event === 'look') look(data as LookMessage);
    else log(data as LogMessage);
  },
  state(state, reason) {
    const shown = find('#state');
    write(shown, STATES[state]);
    shown.className = state;
    if (state === 'lost') complain(reason);
  },
});

const pause = find('#pause');
pause.addEventListener('click', () => {
  stream.isPaused = !stream.isPaused;
  pause.setAttribute('aria-pressed', String(stream.isPaused));
});

filter.addEventListener('input', () => {
  clearTimeout(typing);
  typing = window.setTimeout(() => {
    stream.filter = patternOf(filter.value);
  }, TYPING_MS);
});

// Where very much is looked at, minutes may pass between two looks.
setInterval(() => {
  const ageMs = Date.now() + aheadMs - readAt;
  write(find('#age'), ageMs < OLD_MS ? '' : `as of ${duration(ageMs)} ago`);
}, 1_000);

/** A text without wildcards is looked for anywhere in a key. */
function patternOf(text: string): string {
  const typed = text.trim();
  if (typed === '') return '*';
  return /[*?[\\]/.test(typed) ? typed : `*${typed}*`;
}

function greet(message: HelloMessage): void {
  hello = message;
  aheadMs = message.at - Date.now();
  const service = message.service === null ? '' : `${shortened(message.service)} · `;
  write(find('#where'), `${service}this process: ${shortened(message.host)} pid ${message.pid}`);
}

function look(message: LookMessage): void {
  const isOld = message.problem !== null;
  complain(message.problem ?? '');
  numbers.show(message, isOld);
  waits.show(message.waits);
  if (isOld) return;
  readAt = message.at;
  table.show(message, hello?.role === 'admin');
  const { matching, locks, totals } = message;
  const hidden = matching - locks.length;
  const isFiltered = filter.value.trim() !== '';
  write(
    find('#shown'),
    `${count(matching)} ${isFiltered ? 'match' : 'held'}${hidden > 0 ? `, of which ${count(hidden)} are not listed: filter` : ''}${totals?.isPartial === true ? ' (more than can be counted here)' : ''}`,
  );
  const none = find('#none');
  none.hidden = locks.length > 0;
  write(none, isFiltered ? 'No key that is held matches the filter.' : 'No lock is held.');
}

function log(entries: LogMessage): void {
  find('#log').hidden = entries.length === 0;
  const items = entries.map(({ at, operator, key, result }) =>
    make(
      'li',
      {},
      make('time', { datetime: new Date(at).toISOString() }, `${time(at)}Z `),
      make('bdi', {}, operator === null ? 'somebody' : shortened(operator)),
      ': ',
      make('code', {}, make('bdi', {}, shortened(key))),
      ` ${RESULTS[result]}`,
    ),
  );
  find('#log ol').replaceChildren(...items);
}

function complain(problem: string): void {
  const element = find('#problem');
  element.hidden = problem === '';
  write(element, problem === '' ? '' : shortened(problem));
}

/** Says it where it is seen, and read out, for a while. */
function tell(message: string): void {
  const element = find('#told');
  write(element, message);
  clearTimeout(telling);
  telling = window.setTimeout(() => write(element, ''), 8_000);
}
