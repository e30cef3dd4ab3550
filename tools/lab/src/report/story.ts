import type { Trial } from '../run/trial.js';
import { trialOf } from './matrix.js';
import { timelineOf } from './timeline-model.js';
import { timelineSvg } from './timeline-svg.js';

/** One of three stages in the same accident: side by side, they are the whole story at a glance. */
export interface Chapter {
  readonly stage: number;
  readonly heading: string;
  readonly text: string;
}

const CHAPTERS: readonly Chapter[] = [
  {
    stage: 1,
    heading: 'No lock: both read 100, both save 90',
    text: 'No lock. B reads the same 100 as A, and A overwrites what B has saved.',
  },
  {
    stage: 13,
    heading: 'Lua lock without renewal: it runs out while A works',
    text: 'Lua release, no renewal. The lock runs out under A, and B walks in.',
  },
  {
    stage: 17,
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

/** Small pictures of the same work in one file; undefined if one of them is missing. */
export function storySvg(trials: readonly Trial[]): string | undefined {
  const chapters = storyOf(trials);
  if (chapters.length < CHAPTERS.length) return undefined;
  let top = 0;
  const placed = chapters.map(({ trial, heading }) => {
    const picture = timelineSvg(timelineOf(trial), {
      label: heading,
      heading,
      bare: true,
      standalone: true,
    });
    const [, width = '0', height = '0'] = /viewBox="0 0 ([\d.]+) ([\d.]+)"/.exec(picture) ?? [];
    const at = top;
    top += Number(height) + 8;
    return picture.replace('<svg ', `<svg x="0" y="${at}" width="${width}" height="${height}" `);
  });
  return (
    `<svg viewBox="0 0 1000 ${top - 8}" role="img" xmlns="http://www.w3.org/2000/svg" ` +
    `aria-label="Two buyers of the last pieces: without a lock, with a lock that runs out, with nestjs-locked">` +
    `${placed.join('')}</svg>`
  );
}
