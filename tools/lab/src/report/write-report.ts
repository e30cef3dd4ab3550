import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ACCIDENTS } from '../accidents.js';
import type { Trial } from '../run/trial.js';
import { pairsOf } from '../run/trials.js';
import { STAGES } from '../stages/index.js';
import { OUR_QUORUM, OURS } from '../stages/stage.js';
import { matricesOf, type Matrix, trialOf } from './matrix.js';
import { matrixSvg, narrowMatrixSvg } from './matrix-svg.js';
import { reportHtml, type RunFacts } from './report-html.js';
import { storySvg } from './story.js';
import { commandsShown, timelineOf } from './timeline-model.js';
import { HALF, NARROW, timelineSvg, WIDE } from './timeline-svg.js';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const SAVED = join(ROOT, 'tools/lab/results/trials.json');

/** The pictures that documents show. */
const PICTURED = [
  ['8', 'p1-p2-p3'],
  ['13', 'pause'],
  [OURS, 'pause'],
  ['18', 'forgets'],
  [OUR_QUORUM, 'forgets'],
] as const;

/** What a run has found. */
export interface Run {
  readonly trials: readonly Trial[];
  readonly facts: RunFacts;
}

/** Writes `lab-report.html`, pictures for documents, and what was recorded. @returns the files' paths */
export function writeReport(folder: string, { trials, facts }: Run): string[] {
  return write(folder, [
    ['lab-report.html', reportHtml(trials, facts)],
    ['lab-trials.json', JSON.stringify(trials.map(({ history: _, ...trial }) => trial))],
    ...picturesOf(trials),
  ]);
}

/** Writes a line of JSON for each event of a play, as `check-history` has read it. */
export function writeHistory(
  folder: string,
  { stage, accident, history = [] }: Trial,
  nth: number,
): void {
  const lines = history.map((line) => `${JSON.stringify(line)}\n`);
  const again = nth === 1 ? '' : `-${nth}`;
  write(join(folder, 'histories'), [[`${stage}-${accident}${again}.jsonl`, lines.join('')]]);
}

/**
 * Saves a run, from which the documentation has its pictures and its report. What was not played this time stays as it
 * was saved.
 *
 * @returns the files' paths
 */
export function saveRun(run: Run): string[] {
  const before = existsSync(SAVED) ? savedRun() : { trials: [], facts: run.facts };
  const saved = joined({ ...run, trials: run.trials.map(asShown) }, before);
  const [file = ''] = write(dirname(SAVED), [
    ['trials.json', `${JSON.stringify(saved).replaceAll('{"stage"', '\n{"stage"')}\n`],
  ]);
  return [file, ...writePages()];
}

/** A run, and what an earlier one has found of the pairs that it has not played. Its time is that of both. */
export function joined({ trials, facts }: Run, before: Run): Run {
  const stages = STAGES.map(({ id }) => id);
  const kept = pairsOf(
    stages,
    ACCIDENTS.map(({ id }) => id),
  ).flatMap(({ stage, accident }) =>
    trialOf(trials, stage.id, accident.id) === undefined
      ? (trialOf(before.trials, stage.id, accident.id) ?? [])
      : [],
  );
  if (kept.length === 0) return { trials, facts };
  return {
    trials: [...kept, ...trials],
    facts: { ...facts, seconds: facts.seconds + before.facts.seconds },
  };
}

function savedRun(): Run {
  return JSON.parse(readFileSync(SAVED, 'utf8')) as Run;
}

/** Writes the pictures of the documentation, and the report of its site, from the run that was saved last. */
export function writePages(docs = join(ROOT, 'docs')): string[] {
  const { trials, facts } = savedRun();
  return [
    ...write(join(docs, 'lab'), picturesOf(trials)),
    ...write(join(docs, 'public/lab'), [['report.html', reportHtml(trials, facts)]]),
  ];
}

function picturesOf(trials: readonly Trial[]): [name: string, text: string][] {
  const both = (name: string, draw: (width: number) => string): [string, string][] => [
    [`${name}.svg`, draw(WIDE)],
    [`${name}-narrow.svg`, draw(NARROW)],
  ];
  const { one, several } = matricesOf(trials);
  const matrix = (name: string, of?: Matrix): [string, string][] =>
    of === undefined
      ? []
      : [
          [`${name}.svg`, matrixSvg(of)],
          [`${name}-narrow.svg`, narrowMatrixSvg(of)],
        ];
  return [
    ...matrix('matrix', one),
    ...matrix('several-servers', several),
    ...(storySvg(trials) === undefined
      ? []
      : [
          ...both('three-locks', (width) => storySvg(trials, width) ?? ''),
          ['three-locks-half.svg', storySvg(trials, HALF) ?? ''] as [string, string],
        ]),
    ...PICTURED.flatMap(([number, id]) => {
      const trial = trialOf(trials, number, id);
      if (trial === undefined) return [];
      const stage = STAGES.find((each) => each.id === number);
      const accident = ACCIDENTS.find((each) => each.id === id);
      const heading = `${number}. ${stage?.name}: ${accident?.name}`;
      const label = `${heading}. ${trial.summary}`;
      const timeline = timelineOf(trial);
      return both(`${number}-${id}`, (width) =>
        timelineSvg(timeline, { label, heading, standalone: true, width }),
      );
    }),
  ];
}

/** A trial without what no report shows: commands that a waiter repeats, and fractions of times. */
function asShown({ history: _, ...trial }: Trial): Trial {
  const shown = new Set(commandsShown(trial.events));
  const rounded = <T extends { readonly at: number }>(event: T): T => ({
    ...event,
    at: Math.round(event.at * 10) / 10,
  });
  return {
    ...trial,
    events: trial.events
      .filter((event) => event.kind !== 'command' || shown.has(event))
      .map(rounded),
    keyEvents: trial.keyEvents.map(rounded),
  };
}

function write(folder: string, files: readonly [name: string, text: string][]): string[] {
  mkdirSync(folder, { recursive: true });
  return files.map(([name, text]) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  });
}
