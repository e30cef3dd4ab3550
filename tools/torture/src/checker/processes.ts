import type { Entry } from '../history/entry.js';
import type { Facts } from './facts.js';

/** Commands that are on their way when an application closes have their own time limits. */
const CLOSE_MS = 3_000;

/**
 * What processes must do apart from their calls: nothing that is wrong in itself, close in time, and end on their own.
 */
export function* processViolations({ history, disturbances, calls }: Facts): Iterable<string> {
  const closing = new Map<string, Entry<'closing'>>();
  for (const entry of history) {
    if (entry.kind === 'wrong') yield `${entry.process}: ${entry.what}`;
    if (entry.kind === 'exited') yield* exitViolations(entry);
    if (entry.kind === 'closing') for (const name of entry.services) closing.set(name, entry);
    if (entry.kind === 'killed') {
      for (const [service, { process }] of closing) {
        if (process === entry.process) closing.delete(service);
      }
    }
    if (entry.kind !== 'closed') continue;
    const { process, services, at } = entry;
    const begun = closing.get(services[0] ?? '');
    for (const service of services) closing.delete(service);
    if (begun === undefined) continue;
    const hinderedMs = disturbances.hinderedMs(process, { from: begun.at, until: at }, 'all');
    if (at - begun.at > begun.shutdownMs + CLOSE_MS + hinderedMs) {
      yield `${process} took ${(at - begun.at).toFixed(0)} ms to close, with a shutdownMs of ${begun.shutdownMs}`;
    }
  }
  for (const { process, services } of new Set(closing.values())) {
    yield `${process} did not close ${services.join(', ')}`;
  }
  for (const { id, killedAt, held, ended, released } of calls.values()) {
    if (killedAt !== undefined || held === undefined) continue;
    if (ended === undefined) yield `${id} never ended its hold`;
    else if (released === undefined) yield `${id} never ended its release`;
  }
}

/** A process ends by itself, without an error, after its work. */
export function* exitViolations({ process, code, wasClosed }: Entry<'exited'>): Iterable<string> {
  if (code === null) yield `${process} did not finish in time and was ended`;
  else if (code !== 0) yield `${process} ended with exit code ${code}`;
  else if (!wasClosed) yield `${process} ended before its work was done`;
}
