import type { Entry, Exited } from '../history/entry.js';
import type { Facts } from './facts.js';

/** Commands that are on their way when an application closes have their own time limits. */
const CLOSE_MS = 3_000;

function exitViolations({ process, code, wasClosed }: Exited): string[] {
  if (code === null) return [`${process} did not finish in time and was ended`];
  if (code !== 0) return [`${process} ended with exit code ${code}`];
  return wasClosed ? [] : [`${process} ended before its work was done`];
}

/**
 * What processes must do apart from their calls: nothing that is wrong in itself, close in time, and end on their own.
 */
export function processViolations({ history, disturbances, calls }: Facts): string[] {
  const violations: string[] = [];
  const closing = new Map<string, Extract<Entry, { kind: 'closing' }>>();
  for (const entry of history) {
    switch (entry.kind) {
      case 'wrong':
        violations.push(`${entry.process}: ${entry.what}`);
        break;
      case 'exited':
        violations.push(...exitViolations(entry));
        break;
      case 'closing':
        for (const service of entry.services) closing.set(service, entry);
        break;
      case 'closed': {
        const begun = closing.get(entry.services[0] ?? '');
        for (const service of entry.services) closing.delete(service);
        if (begun === undefined) break;
        const tookMs = entry.at - begun.at;
        const during = { from: begun.at, until: entry.at };
        const limitMs =
          begun.shutdownMs + CLOSE_MS + disturbances.hinderedMs(entry.process, during, 'all');
        if (tookMs > limitMs) {
          violations.push(
            `${entry.process} took ${tookMs.toFixed(0)} ms to close, with a shutdownMs of ${begun.shutdownMs}`,
          );
        }
        break;
      }
      case 'killed':
        for (const [service, begun] of closing) {
          if (begun.process === entry.process) closing.delete(service);
        }
        break;
      case 'asked':
      case 'held':
      case 'valid':
      case 'ensured':
      case 'lost':
      case 'ended':
      case 'released':
      case 'refused':
      case 'aborted':
      case 'inspected':
      case 'stalled':
      case 'foreign':
      case 'fault':
        break; // covered by other rules
    }
  }
  for (const { process, services } of new Set(closing.values())) {
    violations.push(`${process} did not close ${services.join(', ')}`);
  }
  for (const call of calls.values()) {
    if (call.killedAt !== undefined || call.held === undefined) continue;
    if (call.endedAt === undefined) violations.push(`${call.id} never ended its hold`);
    else if (call.released === undefined) violations.push(`${call.id} never ended its release`);
  }
  return violations;
}
