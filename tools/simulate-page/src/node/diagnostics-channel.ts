/** Stands in for `node:diagnostics_channel`: nobody subscribes on the page. */
export function channel(): { hasSubscribers: false } {
  return { hasSubscribers: false };
}

export const tracingChannel = channel;
