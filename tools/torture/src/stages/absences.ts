import type { Absence as AbsenceOfNode } from 'check-history';

/** A time at which one of several nodes could not be counted on. */
export interface Absence extends AbsenceOfNode {
  readonly node: number;
  /** Because the machine had too much to do, and not because of a fault. */
  readonly isOfMachine: boolean;
}
