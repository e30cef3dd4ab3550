/**
 * What must never happen in a process, whether or not a test looks for it. Used in jest's own processes by
 * `guarded-environment.mjs`, and in all that they start by `process-guard.mjs`.
 */

/** Said of other people's code, and of Node itself. Every other warning is a defect: leaked listeners, wrong timers. */
const HARMLESS = new Set(['DeprecationWarning', 'ExperimentalWarning']);

/** @param {(text: string) => void} found @returns a function that stops watching */
export function watchForDefects(found) {
  /** @param {Error} warning */
  const onWarning = (warning) => {
    if (!HARMLESS.has(warning.name)) found(`Warning of Node: ${textOf(warning)}`);
  };
  /** @param {unknown} reason */
  const onRejection = (reason) => {
    found(`Nobody had handled this rejection when it happened: ${textOf(reason)}`);
  };
  process.on('warning', onWarning);
  process.on('unhandledRejection', onRejection);
  return () => {
    process.off('warning', onWarning);
    process.off('unhandledRejection', onRejection);
  };
}

/** @param {unknown} reason */
export function textOf(reason) {
  const isError = typeof reason === 'object' && reason !== null && 'stack' in reason;
  return String(isError ? reason.stack : reason);
}
