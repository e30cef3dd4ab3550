import { svgPicture } from 'kit';
import type { Trial } from '../run/trial.js';
import { OURS } from '../stages/stage.js';
import { trialOf } from './matrix.js';
import { legendSvg, signsIn } from './picture-legend.js';
import { timelineOf } from './timeline-model.js';
import { DARK, LIGHT, TIMELINE_STYLE, timelineSvg, WIDE } from './timeline-svg.js';

/** One of three stages in the same accident: side by side, they are the whole story at a glance. */
export interface Chapter {
  readonly stage: string;
  readonly heading: string;
  readonly text: string;
}

const CHAPTERS: readonly Chapter[] = [
  {
    stage: '1',
    heading: 'No lock: both read 100, both save 90',
    text: 'No lock. B reads the same 100 as A, and A overwrites what B has saved.',
  },
  {
    stage: '13',
    heading: 'Lua lock without renewal: it runs out while A works',
    text: 'Lua release, no renewal. The lock runs out under A, and B walks in.',
  },
  {
    stage: OURS,
    heading: 'nestjs-locked: B enters after A has committed',
    text: 'nestjs-locked. The lease is renewed until A has committed; then B enters.',
  },
];

export type PlayedChapter = Chapter & { readonly trial: Trial };

/** The chapters that were played. */
export function storyOf(trials: readonly Trial[]): PlayedChapter[] {
  return CHAPTERS.flatMap((chapter) => {
    const trial = trialOf(trials, chapter.stage, 'long-work');
    return trial === undefined ? [] : [{ ...chapter, trial }];
  });
}

const STORY =
  'Two buyers, A and B, want the last pieces at the same time, and A takes longer than its lock lasts: ' +
  'without a lock, with a lock that runs out, with nestjs-locked';

/** Small pictures of the same work in one file; undefined if one of them is missing. */
export function storySvg(trials: readonly Trial[], width = WIDE): string | undefined {
  const chapters = storyOf(trials);
  if (chapters.length < CHAPTERS.length) return undefined;
  const timelines = chapters.map(({ trial }) => timelineOf(trial));
  let top = 0;
  const placed = chapters.map(({ heading }, n) => {
    const picture = timelineSvg(timelines[n]!, { label: heading, heading, bare: true, width });
    const [, height = '0'] = /viewBox="0 0 [\d.]+ ([\d.]+)"/.exec(picture) ?? [];
    const at = top;
    top += Number(height) + 8;
    return picture.replace('<svg ', `<svg x="0" y="${at}" width="${width}" height="${height}" `);
  });
  const legend = legendSvg(signsIn(...timelines), { top, width });
  return svgPicture({
    width,
    height: legend.bottom,
    label: STORY,
    attributes: ' class="timeline"',
    own: { light: LIGHT, dark: DARK, style: TIMELINE_STYLE.replaceAll('\n', '') },
    parts: [...placed, ...legend.parts],
  });
}
