import { escapeMarkup } from 'kit';
import { ACCIDENTS } from '../accidents.js';
import type { Span } from '../run/spans.js';
import type { Trial } from '../run/trial.js';
import { LEASE_MS, RENEW_EVERY_MS, RETRY_MS, SCALE } from '../scale.js';
import { isOurs } from '../stages/stage.js';
import { type Cell, markOf, matricesOf, type Row, verdictOf } from './matrix.js';
import {
  chip,
  idOf,
  markChip,
  matrixLegend,
  matrixTable,
  numbered,
  stageRow,
} from './matrix-table.js';
import { type Measure, measuresOf } from './measures.js';
import { SIGNS } from './picture-legend.js';
import { REPORT_SCRIPT } from './report-script.js';
import { REPORT_STYLE } from './report-style.js';
import { storyOf } from './story.js';
import { milliseconds, period, type Timeline, timelineOf } from './timeline-model.js';
import { NARROW, timelineSvg, WIDE } from './timeline-svg.js';

export interface RunFacts {
  readonly seed: number;
  readonly seconds: number;
  readonly machine: string;
  readonly date: string;
  /** Results that differ from the table of expected results. */
  readonly deviations: readonly string[];
}

/** The whole report, in one file that loads nothing from the network. */
export function reportHtml(trials: readonly Trial[], facts: RunFacts): string {
  const matrices = Object.values(matricesOf(trials));
  const rows = matrices.flatMap((matrix) => matrix.rows);
  const played = matrices.flatMap((matrix) => matrix.accidents);
  const accidents = ACCIDENTS.filter((accident) => played.includes(accident));
  const others = rows.filter(({ stage }) => !isOurs(stage.id)).length;
  const accidentTrials = trials.filter(({ accident }) => accident !== 'sale');
  const broken = accidentTrials.filter(({ findings }) => findings.length > 0);
  const wrongOfOurs = trials.filter(
    ({ stage, findings }) => isOurs(stage) && findings.includes('stock wrong'),
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Lock lab: ${rows.length} locks, run until they break</title>
<style>${REPORT_STYLE}</style>
</head>
<body>
<a class="skip" href="#matrix">To the matrix</a>
<header class="top">
<h1>${others} locks from articles, and nestjs-locked, run until they break</h1>
<button type="button" class="theme" data-theme-switch>Dark or light</button>
<p class="lead">Real Redis, PostgreSQL and processes; each accident is provoked where a lock of this kind breaks.
<b>${broken.length} of ${accidentTrials.length} trials did damage; ${wrongOfOurs.length} left a wrong stock under nestjs-locked.</b></p>
</header>
<main>
${deviations(facts)}
<section id="matrix" aria-label="What held, and what broke">
${matrixLegend()}
${matrices.map((matrix) => `<div class="frame">${matrixTable(matrix)}</div>`).join('\n')}
</section>
${hero(trials)}
${fold('accidents', 'What each accident does', `<dl class="accidents">${accidents.map(({ name, how }) => `<div><dt>${escapeMarkup(name)}</dt><dd>${escapeMarkup(how)}.</dd></div>`).join('')}</dl>`)}
${fold('stages', 'Each lock, with a picture of every trial', `${pictureLegend()}${rows.map(stageSection).join('\n')}`)}
${measuresSection(rows)}
</main>
<footer>
<p>Seed ${facts.seed}, ${trials.length} trials in ${Math.round(facts.seconds)} s, ${escapeMarkup(facts.machine)}, ${escapeMarkup(facts.date)}.
Times of the articles are divided by ${SCALE}: leases ${LEASE_MS} ms, renewal every ${RENEW_EVERY_MS} ms, a waiter that spins sleeps ${RETRY_MS} ms.
“Two holders” is judged by what the callers did, and believed, on one monotonic clock; the stock by the rows in PostgreSQL, which are only ever added.</p>
</footer>
<div class="tip" role="status" aria-live="polite" hidden></div>
<script>${REPORT_SCRIPT}</script>
</body>
</html>
`;
}

/** A section that is closed until it is wanted. */
function fold(id: string, head: string, content: string): string {
  return `<details class="fold" id="${id}"><summary><h2>${head}</h2></summary>${content}</details>`;
}

function deviations({ deviations }: RunFacts): string {
  if (deviations.length === 0) return '';
  const items = deviations.map((text) => `<li>${escapeMarkup(text)}</li>`).join('');
  return `<section class="differs"><h2>Differs from the expected results</h2><ul>${items}</ul></section>`;
}

function hero(trials: readonly Trial[]): string {
  const figures = storyOf(trials).map(({ trial, text }) => {
    const { sold, start, left } = trial.stock;
    const result = `${sold} sold, ${start - left} gone from the stock`;
    const timeline = timelineOf(trial);
    const picture = (width: number): string =>
      timelineSvg(timeline, { label: `${text} ${result}.`, bare: true, width });
    return `<figure class="card"><figcaption>${chip(verdictOf(trial))} ${escapeMarkup(text)} <span class="result">${result}</span></figcaption>
<div class="for-desk">${picture(WIDE)}</div><div class="for-phone">${picture(NARROW)}</div></figure>`;
  });
  if (figures.length === 0) return '';
  return `<section class="hero" aria-labelledby="hero-head"><h2 id="hero-head">The same work, three locks: A takes longer than its lock lasts</h2>${figures.join('')}</section>`;
}

function measuresSection(rows: readonly Row[]): string {
  const sales = rows.flatMap(({ stage, cells }) => {
    const trial = cells.find(({ accident }) => accident.id === 'sale')?.trial;
    return trial === undefined ? [] : [{ stage, measures: measuresOf(trial) }];
  });
  const [first] = sales;
  if (first === undefined) return '';
  const cell = ({ head, text, isBad }: Measure): string =>
    `<td${isBad ? ' class="bad"' : ''} data-head="${escapeMarkup(head)}">${escapeMarkup(text)}</td>`;
  const heads = first.measures.map(({ head }) => `<th scope="col">${escapeMarkup(head)}</th>`);
  const lines = sales.map(({ stage, measures }) =>
    stageRow(stage, numbered(stage), measures.map(cell)),
  );
  return fold(
    'measures',
    'The sale, measured',
    `<p>100 pieces, 15 workers in 3 processes; each wants 10 pieces, up to 3 times. Right is: 10 purchases, 100 pieces sold, 100 gone.
A call is a purchase that sold, or that found nothing left: both need the lock.</p>
<div class="frame"><table class="measures">
<thead><tr><th scope="col">Lock</th>${heads.join('')}</tr></thead>
<tbody>${lines.join('\n')}</tbody></table></div>`,
  );
}

function pictureLegend(): string {
  const items = SIGNS.map(
    ({ shape, text }) =>
      `<li><svg viewBox="0 0 34 16" width="34" height="16" aria-hidden="true" class="timeline">${shape}</svg> ${text}</li>`,
  );
  return `<ul class="legend pictures" aria-label="What the pictures show">${items.join('')}</ul>`;
}

function stageSection({ stage, cells }: Row): string {
  const trials = cells.flatMap(({ trial }) => (trial === undefined ? [] : [trial]));
  const articles = cells.map((cell) =>
    cell.trial === undefined ? '' : trialDetails(cell, cell.trial),
  );
  const damaged = trials.filter(({ findings }) => findings.length > 0).length;
  const isOwn = isOurs(stage.id);
  return `<details class="stage${isOwn ? ' ours' : ''}" id="stage-${stage.id}">
<summary><h3>${numbered(stage)}</h3> <span class="count">${damaged} of ${trials.length} trials did damage</span></summary>
<p class="lesson">${escapeMarkup(stage.lesson)}</p>
<p class="breaks"><b>${isOwn ? 'What remains:' : 'Breaks:'}</b> ${escapeMarkup(stage.breaks)}</p>
${articles.join('\n')}
</details>`;
}

function trialDetails({ accident }: Cell, trial: Trial): string {
  const timeline = timelineOf(trial);
  const mark = markOf(trial);
  const label = `Timeline of stage ${trial.stage}, ${accident.name}. ${trial.summary}`;
  return `<details class="trial" id="${idOf(trial)}">
<summary><span class="chips">${chip(verdictOf(trial))}${mark === undefined ? '' : ` ${markChip(mark)}`}</span> <span class="what">${escapeMarkup(accident.name)}</span> <span class="summary">${escapeMarkup(trial.summary)}</span></summary>
<p class="how">${escapeMarkup(accident.how)}.</p>
<div class="scroll" role="region" aria-label="${escapeMarkup(`Picture of stage ${trial.stage}, ${accident.name}`)}" tabindex="0">${timelineSvg(timeline, { label })}</div>
${momentsList(timeline)}
<details class="as-table"><summary>The same as a table</summary><div class="scroll" role="region" aria-label="${escapeMarkup(`Stage ${trial.stage}, ${accident.name}, as a table`)}" tabindex="0">${timelineTable(timeline)}</div></details>
</details>`;
}

function momentsList({ moments }: Timeline): string {
  if (moments.length === 0) return '';
  const items = moments.map(
    ({ at, text, kind }) =>
      `<li data-kind="${kind}"><time>${milliseconds(at)}</time> ${escapeMarkup(text)}</li>`,
  );
  return `<ol class="moments">${items.join('')}</ol>`;
}

function timelineTable({ lanes, waits, holds, transactions, results }: Timeline): string {
  const times = (spans: readonly Span[], lane: string): string => {
    const own = spans.filter((span) => span.lane === lane).map(period);
    return `<td>${own.length === 0 ? 'never' : own.join(', ')}</td>`;
  };
  const rows = lanes.map((lane) => {
    const cells = [waits, holds, transactions].map((spans) => times(spans, lane)).join('');
    return `<tr><th scope="row">${escapeMarkup(lane)}</th>${cells}<td>${escapeMarkup(results.get(lane) ?? '')}</td></tr>`;
  });
  const heads = ['caller', 'waited', 'held the lock', 'transaction open', 'result'].map(
    (head) => `<th scope="col">${head}</th>`,
  );
  return `<table><thead><tr>${heads.join('')}</tr></thead><tbody>${rows.join('')}</tbody></table>`;
}
