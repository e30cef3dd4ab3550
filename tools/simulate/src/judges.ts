import { checkHistory, type HistoryLine } from 'check-history';
import { replay } from 'spec';

/** Who judges a history: by what was done and believed, or by what the specification of the protocol allows. */
export const JUDGE_NAMES = ['check-history', 'spec'] as const;
export type JudgeName = (typeof JUDGE_NAMES)[number];

export interface Finding {
  readonly rule: string;
  readonly at: number;
  readonly text: string;
}

const JUDGES: Readonly<Record<JudgeName, (lines: readonly HistoryLine[]) => Finding[]>> = {
  'check-history': checkHistory,
  spec: replay,
};

/** What any of them finds, in the order of time. */
export function findingsIn(
  lines: readonly HistoryLine[],
  judges: readonly JudgeName[],
): readonly Finding[] {
  return judges.flatMap((judge) => JUDGES[judge](lines)).sort((a, b) => a.at - b.at);
}
