/**
 * Defects that must not occur in any process, whether or not a test checks for them. `guarded-environment.mjs` watches
 * jest's own processes, `process-guard.mjs` the processes that the tests start.
 */

/**
 * Warnings about third-party code and about Node itself. Every other warning is a defect, such as a listener leak or a
 * timer overflow.
 */
const HARMLESS = new Set(['DeprecationWarning', 'ExperimentalWarning']);

/** @param {(text: string) => void} found called for each defect @returns a function that stops watching */
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
