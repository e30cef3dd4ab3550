import type { ShownHolder, ShownLock } from '../src/dashboard/dashboard-messages.js';

/** What would hide, reorder or break the text around it: control and format characters, and half pairs. */
const UNSHOWN = /[\p{C}\p{Zl}\p{Zp}]/gu;

const LONGEST = 300;

/** A text from elsewhere, with everything in it visible. */
export function shown(text: string): string {
  return text.replace(UNSHOWN, (it) => `\\u{${(it.codePointAt(0) as number).toString(16)}}`);
}

/** The same, as long as is useful in a list. */
export function shortened(text: string): string {
  const whole = shown(text);
  return whole.length > LONGEST ? `${whole.slice(0, LONGEST)}…` : whole;
}

/** `850 ms`, `12.3 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h` */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function count(number: number): string {
  return number.toLocaleString('en');
}

export function time(at: number): string {
  return new Date(at).toISOString().slice(11, 19);
}

const WITHOUT_HOLDER: Record<ShownLock['state'], string> = {
  held: 'unknown',
  kept: 'nobody, kept by holdAtLeastMs',
  revoked: 'nobody, just released here',
  foreign: 'another kind of client',
};

export function process({ host, pid, processId }: ShownHolder): string {
  return shortened(host === null ? `process ${processId}` : `${host} pid ${pid}`);
}

export function holder({ holder: by, state, mode, leases }: ShownLock): string {
  if (by === null) return WITHOUT_HOLDER[state];
  if (leases > 1) return `${count(leases)} ${mode === 'permit' ? 'permits' : 'readers'}`;
  if (mode === 'permit') return `${process(by)}, with a permit`;
  return mode === 'shared' ? `${process(by)}, which reads` : process(by);
}

/** The call that has the lock, if it is one. */
export function callOf({ holder: by, leases }: ShownLock): string {
  return by === null || leases > 1 ? '' : label(by);
}

export function label(by: ShownHolder): string {
  return by.label === null ? '' : shortened(by.label);
}

/** The call, and its process. */
export function caller(by: ShownHolder): string {
  const call = label(by);
  return call === '' ? process(by) : `${call}, ${process(by)}`;
}

export function lease({ remainingMs }: ShownLock): string {
  return remainingMs === null ? 'no end' : duration(remainingMs);
}

export function heldFor({ since }: ShownLock, at: number): string {
  return since === null ? '' : duration(Math.max(0, at - since));
}
