import type { EngineParts } from '../lease/engine-parts.js';
import type { LockEvent } from '../lock-events.js';

/** How many templates are remembered. A service has fewer, unless it makes them from data. */
const MOST_TEMPLATES = 1_000;

/** The templates that each lock service has reported. */
const reported = new WeakMap<EngineParts, Set<string>>();

/** Reports that callers count different numbers of permits, once for each template of keys. */
export function reportDifferingPermits(
  parts: EngineParts,
  event: Omit<Extract<LockEvent, { type: 'permits-differ' }>, 'type'>,
): void {
  const templates = reported.get(parts) ?? new Set();
  reported.set(parts, templates);
  if (templates.has(event.template) || templates.size === MOST_TEMPLATES) return;
  templates.add(event.template);
  parts.report({ type: 'permits-differ', ...event });
}
