import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ACCIDENTS } from '../accidents.js';
import type { Trial } from '../run/trial.js';
import { STAGES } from '../stages/index.js';
import { trialOf } from './matrix.js';
import { matrixSvg } from './matrix-svg.js';
import { reportHtml, type RunFacts } from './report-html.js';
import { storySvg } from './story.js';
import { timelineOf } from './timeline-model.js';
import { timelineSvg } from './timeline-svg.js';

/** The pictures that documents show. */
const PICTURED = [
  [8, 'p1-p2-p3'],
  [13, 'pause'],
  [17, 'pause'],
] as const;

/** Writes `lab-report.html`, pictures for documents, and what was recorded. @returns the files' paths */
export function writeReport(folder: string, trials: readonly Trial[], facts: RunFacts): string[] {
  const files = new Map<string, string>([
    ['lab-report.html', reportHtml(trials, facts)],
    ['lab-trials.json', JSON.stringify(trials)],
    ['matrix.svg', matrixSvg(trials)],
  ]);
  const story = storySvg(trials);
  if (story !== undefined) files.set('three-locks.svg', story);
  for (const [number, id] of PICTURED) {
    const trial = trialOf(trials, number, id);
    if (trial === undefined) continue;
    const stage = STAGES.find((each) => each.number === number);
    const accident = ACCIDENTS.find((each) => each.id === id);
    const heading = `${number}. ${stage?.name}: ${accident?.name}`;
    const label = `${heading}. ${trial.summary}`;
    files.set(
      `${number}-${id}.svg`,
      timelineSvg(timelineOf(trial), { label, heading, standalone: true }),
    );
  }
  mkdirSync(folder, { recursive: true });
  return [...files].map(([name, text]) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  });
}
