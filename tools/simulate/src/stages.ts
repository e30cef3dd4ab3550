import type { BreakName } from './server/breaks.js';
import type { QuorumBreakName } from './server/quorum-breaks.js';

/** What is played: one server, or several of which more than half must vote. */
export const STAGE_NAMES = ['server', 'quorum'] as const;
export type StageName = (typeof STAGE_NAMES)[number];

/** What is broken on purpose, on either stage. */
export type AnyBreakName = BreakName | QuorumBreakName;
