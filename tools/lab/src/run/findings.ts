import { checkHistory, type Finding as Broken } from 'check-history';
import type { LabHistory } from './history.js';
import type { Trial } from './trial.js';

/** What can be wrong, with the worst first. If nothing is wrong, the lock has held. */
export const FINDINGS = [
  'stock wrong',
  'two holders',
  'wrong fence',
  'locked for ever',
  'call failed',
  'goal missed',
  'wrong order',
  'nobody was told',
  'told late',
] as const;

export type Finding = (typeof FINDINGS)[number];

/** What a lock may never do, however slow the machine is. */
export const UNSAFE: readonly Finding[] = [
  'stock wrong',
  'two holders',
  'wrong fence',
  'nobody was told',
  'told late',
];

/** What it means for the lab that a rule is broken. */
const MEANINGS: Partial<Record<Broken['rule'], Finding>> = {
  'two hold one key': 'two holders',
  'fences rise': 'wrong fence',
  'a holder is told of its end': 'nobody was told',
  'every call ends': 'locked for ever',
  'a wait ends in time': 'goal missed',
  'who waits longer comes first': 'wrong order',
  // Whether somebody gets in soon is asked by the goals, of locks that poll as of others.
};

/**
 * The verdict on what callers did is that of `check-history`. What was sold and what the runner saw comes on top.
 *
 * @param isInOrder whether the lock promises its waiters an order
 */
export function findingsOf(
  history: LabHistory,
  { events, stock, seen }: Pick<Trial, 'events' | 'stock' | 'seen'>,
  isInOrder: boolean,
): Finding[] {
  const found = new Set(seen.map(({ finding }) => finding));
  if (stock.start - stock.left !== stock.sold || stock.left < 0) found.add('stock wrong');
  for (const { rule, calls } of checkHistory(history.lines)) {
    const meaning = MEANINGS[rule];
    if (meaning !== 'wrong order' || isInOrder) found.add(meaning);
    const heard = calls && history.heard.get(calls[0]);
    if (heard === 'never') found.add('nobody was told');
    if (heard === 'late') found.add('told late');
  }
  // A caller that was told of a loss fails for a good reason, whatever the error of its database says.
  const told = new Set(events.filter(({ kind }) => kind === 'told').map(({ lane }) => lane));
  if (events.some(({ kind, lane }) => kind === 'failed' && !told.has(lane))) {
    found.add('call failed');
  }
  return FINDINGS.filter((finding) => found.has(finding));
}
