import type { Entry } from '../history/entry.js';
import { type Call, readCalls } from './call.js';
import { Disturbances } from './disturbances.js';
import { type ExcusedTime, excusedTime } from './excuses.js';
import { ForgottenLeases } from './forgotten-leases.js';
import { type OwnSection, type Section, sectionsOf } from './section.js';

export interface CheckLimits {
  /** How long a key may be free while somebody waits for it and nothing explains that. */
  readonly gapMs: number;
  /**
   * How long a call may wait in all, not counting the time that faults explain, or in which somebody has the key who
   * came before it.
   */
  readonly fairMs: number;
  /** Whether no order of those that wait is promised, so that none is judged. @default false */
  readonly isUnordered?: boolean;
  /** The share of holds that faults may excuse, from 0 to 1. If there were more, a clean run would say little. */
  readonly excusedShare: number;
  /** The share of the time for which faults may excuse the waits for one key, from 0 to 1. */
  readonly excusedTimeShare: number;
  /** The same for the faults that were planned, whatever the machine adds to them. */
  readonly plannedTimeShare: number;
}

/** What the rules are applied to. */
export interface Facts {
  readonly limits: CheckLimits;
  /** The entries, in the order of time. */
  readonly history: readonly Entry[];
  readonly calls: ReadonlyMap<string, Call>;
  /** The sections, in the order of their beginnings. */
  readonly sections: readonly Section[];
  /** Those of our own calls. */
  readonly own: readonly OwnSection[];
  readonly disturbances: Disturbances;
  readonly forgotten: ForgottenLeases;
  /** Whether the application of this service had begun to close by then. */
  readonly wasClosing: (service: string, at: number) => boolean;
  readonly excusedTime: ExcusedTime;
  /**
   * Sections for which a fault is an excuse: those whose lease it may have forgotten, and those that, because of it,
   * were beside another holder or out of order. The rules add to it.
   */
  readonly excused: Set<Section>;
  /** For how long two holders of a key were excused, in milliseconds, by key. The rules add to it. */
  readonly excusedOverlaps: Record<string, number>;
}

export function factsOf(unordered: readonly Entry[], limits: CheckLimits): Facts {
  const history = [...unordered].sort((a, b) => a.at - b.at);
  const calls = readCalls(history);
  const sections = sectionsOf(history, calls.values());
  const own = sections.filter((section): section is OwnSection => section.call !== undefined);
  const disturbances = new Disturbances(history, [...calls.values()]);
  const forgotten = new ForgottenLeases(disturbances);
  return {
    ...{ limits, history, calls, sections, own, disturbances, forgotten },
    wasClosing: (service, at) =>
      history.some(
        (entry) => entry.kind === 'closing' && entry.services.includes(service) && entry.at <= at,
      ),
    excusedTime: excusedTime(history, calls.values(), disturbances),
    excused: new Set(own.filter((section) => forgotten.concerns(section))),
    excusedOverlaps: {},
  };
}
