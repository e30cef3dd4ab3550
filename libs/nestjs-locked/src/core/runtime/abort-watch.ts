const watched = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `onAbort` when the signal aborts, unless cancelled before. A signal shared by many calls gets one listener,
 * because Node warns of a leak from the eleventh on.
 *
 * @param signal must not have aborted yet, because a listener added later is never called
 * @returns a function that cancels it
 */
export function watchAbort(signal: AbortSignal, onAbort: () => void): () => void {
  const callbacks = watched.get(signal) ?? watch(signal);
  callbacks.add(onAbort);
  return () => {
    callbacks.delete(onAbort);
    if (callbacks.size > 0 || watched.get(signal) !== callbacks) return;
    watched.delete(signal);
    signal.removeEventListener('abort', onSignal);
  };
}

function watch(signal: AbortSignal): Set<() => void> {
  const callbacks = new Set<() => void>();
  watched.set(signal, callbacks);
  signal.addEventListener('abort', onSignal, { once: true });
  return callbacks;
}

function onSignal(this: AbortSignal): void {
  const callbacks = watched.get(this) ?? [];
  watched.delete(this);
  for (const callback of [...callbacks]) callback();
}
