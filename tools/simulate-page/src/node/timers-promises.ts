/** Stands in for `node:timers/promises`; the function is replaced before it is used. */
const timers = {
  setImmediate: (): Promise<unknown> => Promise.reject(new Error('a world has not begun')),
};

export default timers;

export function setImmediate(value?: unknown): Promise<unknown> {
  return (timers.setImmediate as (value: unknown) => Promise<unknown>)(value);
}
