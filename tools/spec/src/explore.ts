import type { Invariant, Rule } from './rules.js';
import {
  beginning,
  type Bounds,
  invariantBroken,
  isWaiting,
  renumber,
  stepsFrom,
  type World,
} from './world.js';

export interface Outcome {
  readonly states: number;
  readonly transitions: number;
  /** Every history of so many steps was seen; Infinity: every history. */
  readonly depth: number;
  /** The longest time, in ticks, until somebody who waits is served, from any state, if nothing goes wrong any more. */
  readonly longestWait: number;
  readonly found?: { readonly invariant: Invariant; readonly trace: readonly string[] };
}

/** Beyond that, it is for ever. */
const FOR_EVER = 60;

/** Sees all histories within the bounds, the shortest ones first, so that what it finds is as short as can be. */
export function explore(bounds: Bounds, mostStates: number, broken?: Rule): Outcome {
  const first = JSON.stringify(beginning(bounds));
  const states = [first];
  const cameFrom: { readonly index: number; readonly text: string; readonly depth: number }[] = [
    { index: -1, text: '', depth: 0 },
  ];
  const seen = new Set(states);
  const waits = new Map<string, number>();
  let transitions = 0;
  let longestWait = 0;
  const outcome = (depth: number, found?: Invariant, at = 0, last?: string): Outcome => {
    const trace = last === undefined ? [] : [last];
    for (let i = at; i > 0; i = cameFrom[i]?.index ?? 0) trace.unshift(cameFrom[i]?.text ?? '');
    const all = { states: states.length, transitions, depth, longestWait };
    return found === undefined ? all : { ...all, found: { invariant: found, trace } };
  };
  for (let i = 0; i < states.length; i += 1) {
    const state = states[i] as string;
    const depth = cameFrom[i]?.depth ?? 0;
    if (states.length > mostStates) return outcome(depth);
    if (bounds.fenceTicks === undefined) {
      const wait = waitFrom(state, bounds, broken, waits);
      longestWait = Math.max(longestWait, wait);
      if (wait >= FOR_EVER) return outcome(depth, 'every waiter is served', i);
      if (wait > bounds.within) return outcome(depth, 'every waiter is served in time', i);
    }
    for (const { text, take } of stepsFrom(JSON.parse(state) as World, bounds, broken)) {
      const next = JSON.parse(state) as World;
      take(next);
      transitions += 1;
      const found = invariantBroken(next, broken);
      if (found !== undefined) return outcome(depth, found, i, text);
      renumber(next);
      const key = JSON.stringify(next);
      if (seen.has(key)) continue;
      seen.add(key);
      states.push(key);
      cameFrom.push({ index: i, text, depth: depth + 1 });
    }
  }
  return outcome(Infinity);
}

/** Everything that can happen happens, without faults, and only then does time pass. @returns how much of it */
function waitFrom(
  from: string,
  bounds: Bounds,
  broken: Rule | undefined,
  known: Map<string, number>,
): number {
  const path: { readonly state: string; readonly ticks: number }[] = [];
  let state = from;
  let ticks = 0;
  let rest = known.get(state);
  while (rest === undefined) {
    const world = JSON.parse(state) as World;
    if (ticks >= FOR_EVER || !isWaiting(world)) {
      rest = ticks >= FOR_EVER ? FOR_EVER : 0;
      break;
    }
    path.push({ state, ticks });
    const steps = stepsFrom(world, bounds, broken, true);
    const step =
      steps.find(({ kind }) => kind === 'step') ?? steps.find(({ kind }) => kind === 'time');
    step?.take(world);
    if (step?.kind === 'time') ticks += 1;
    renumber(world);
    state = JSON.stringify(world);
    rest = known.get(state);
  }
  for (const each of path) known.set(each.state, Math.min(FOR_EVER, ticks - each.ticks + rest));
  return known.get(from) ?? rest;
}
