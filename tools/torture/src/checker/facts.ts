import type { Entry, Foreign } from '../history/entry.js';
import { type Call, readCalls } from './call.js';
import { Disturbances } from './disturbances.js';
import { ForgottenLeases } from './forgotten-leases.js';
import { type Section, sectionsOf } from './section.js';

/** What the rules are applied to. */
export interface Facts {
  /** The entries, in the order of time. */
  readonly history: readonly Entry[];
  readonly calls: ReadonlyMap<string, Call>;
  /** The sections, in the order of their beginnings. */
  readonly sections: readonly Section[];
  readonly disturbances: Disturbances;
  readonly forgotten: ForgottenLeases;
}

export function factsOf(unordered: readonly Entry[]): Facts {
  const history = [...unordered].sort((a, b) => a.at - b.at);
  const calls = readCalls(history);
  const foreign = history.filter((entry): entry is Foreign => entry.kind === 'foreign');
  const sections = sectionsOf(calls.values(), foreign);
  const disturbances = new Disturbances(history, [...calls.values()]);
  return {
    history,
    calls,
    sections,
    disturbances,
    forgotten: new ForgottenLeases(disturbances),
  };
}
