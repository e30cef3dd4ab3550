/** How often the report is due. `ReportService` has the same as a cron pattern. */
export const EVERY_MS = 3_000;

/**
 * The name of the tick that a clock is in: the time at which it was due, whenever that clock came to it. A process that
 * is a second ahead asks for the same tick as the others, a second earlier.
 */
export function tickAt(now: number): string {
  return new Date(now - (now % EVERY_MS)).toISOString().replace('.000', '');
}
