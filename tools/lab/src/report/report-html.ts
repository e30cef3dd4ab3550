import { escapeMarkup } from 'kit';
import type { Span } from '../run/spans.js';
import type { Trial } from '../run/trial.js';
import { LEASE_MS, RENEW_EVERY_MS, RETRY_MS, SCALE } from '../scale.js';
import { OURS, type Stage } from '../stages/stage.js';
import { type Cell, LEGEND, matrixOf, type Row, type Verdict, verdictOf } from './matrix.js';
import { type Measure, measuresOf } from './measures.js';
import { SIGNS } from './picture-legend.js';
import { REPORT_SCRIPT } from './report-script.js';
import { REPORT_STYLE } from './report-style.js';
import { storyOf } from './story.js';
import { milliseconds, period, type Timeline, timelineOf } from './timeline-model.js';
import { timelineSvg } from './timeline-svg.js';

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
  const { rows, accidents } = matrixOf(trials);
  const accidentTrials = trials.filter(({ accident }) => accident !== 'sale');
  const broken = accidentTrials.filter(({ findings }) => findings.length > 0);
  const ours = trials.filter(({ stage }) => stage === OURS);
  const wrongOfOurs = ours.filter(({ findings }) => findings.includes('stock wrong'));
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
<p class="kicker">nestjs-locked · lock lab</p>
<h1>Twenty ways to build a lock,<br>run until they break. And ours.</h1>
<p class="lead">The same stock of 100, the same buyers, real Redis, real PostgreSQL, real processes. Each accident is provoked
at the exact point where a lock of this kind breaks: the process is stopped there, killed or paused, and what the others do
is written down.</p>
<dl class="numbers">
${number(accidentTrials.length, 'accidents provoked')}
${number(broken.length, 'of them did damage')}
${number(wrongOfOurs.length, 'wrong stocks with nestjs-locked', 'good')}
${number(`1 : ${SCALE}`, `time scale: a lease of 30 s lasts ${LEASE_MS / 1_000} s here`)}
</dl>
<button type="button" class="theme" data-theme-switch>Dark or light</button>
</header>
<main>
${deviations(facts)}
${hero(trials)}
<section id="matrix" aria-labelledby="matrix-head">
<h2 id="matrix-head">What held, and what broke</h2>
<p>Every accident was played against every stage that it can happen to. A cell leads to its picture.</p>
${legend()}
<div class="scroll wide" role="region" aria-label="Matrix of stages and accidents" tabindex="0">
<table class="matrix">
<thead><tr><th scope="col">Stage</th>${accidents.map(({ name }) => `<th scope="col"><span>${escapeMarkup(name)}</span></th>`).join('')}</tr></thead>
<tbody>
${rows.map(matrixRow).join('\n')}
</tbody>
</table>
</div>
</section>
${measuresSection(rows)}
<section aria-labelledby="accidents-head">
<h2 id="accidents-head">The accidents</h2>
<dl class="accidents">${accidents.map(({ name, how }) => `<div><dt>${escapeMarkup(name)}</dt><dd>${escapeMarkup(how)}.</dd></div>`).join('')}</dl>
</section>
<section aria-labelledby="stages-head">
<h2 id="stages-head">Stage by stage</h2>
${pictureLegend()}
${rows.map(stageSection).join('\n')}
</section>
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

function number(value: number | string, text: string, css = ''): string {
  return `<div${css === '' ? '' : ` class="${css}"`}><dt>${escapeMarkup(text)}</dt><dd>${escapeMarkup(value)}</dd></div>`;
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
    const picture = timelineSvg(timelineOf(trial), { label: `${text} ${result}.`, bare: true });
    return `<figure class="card"><figcaption>${chip(verdictOf(trial))} ${escapeMarkup(text)} <span class="result">${result}</span></figcaption>
<div class="scroll">${picture}</div></figure>`;
  });
  if (figures.length === 0) return '';
  return `<section class="hero" aria-labelledby="hero-head"><h2 id="hero-head">The same work, three locks: A takes longer than its lock lasts</h2>${figures.join('')}</section>`;
}

function legend(): string {
  const items = LEGEND.map(
    (verdict) => `<li>${chip(verdict)} ${escapeMarkup(verdict.meaning)}</li>`,
  );
  const none = chip({ css: 'none', sign: '·', short: 'cannot happen' });
  return `<ul class="legend">${items.join('')}<li>${none} The stage has nothing that could break there.</li></ul>`;
}

function chip({ css, sign, short }: Pick<Verdict, 'css' | 'sign' | 'short'>): string {
  return `<span class="chip ${css}"><b aria-hidden="true">${sign}</b> ${escapeMarkup(short)}</span>`;
}

function numbered({ id, name }: Stage): string {
  return `<span class="no">${id}</span> ${escapeMarkup(name)}`;
}

/** The row of a stage. @param lead what stands in its first cell */
function stageRow({ id }: Stage, lead: string, cells: readonly string[]): string {
  const css = id === OURS ? ' class="ours"' : '';
  return `<tr${css}><th scope="row">${lead}</th>${cells.join('')}</tr>`;
}

function matrixRow({ stage, cells }: Row): string {
  const link = `<a href="#stage-${stage.id}">${numbered(stage)}</a>`;
  return stageRow(stage, link, cells.map(matrixCell));
}

function matrixCell({ accident, trial, cannot }: Cell): string {
  const head = `data-head="${escapeMarkup(accident.name)}"`;
  if (trial === undefined) {
    const why = cannot ?? 'was not run';
    return `<td class="none" ${head}><span title="${escapeMarkup(why)}"><span aria-hidden="true">·</span><span class="unseen">${escapeMarkup(why)}</span></span></td>`;
  }
  const { sign, short, css } = verdictOf(trial);
  const tip = escapeMarkup(`${accident.name}: ${trial.summary === '' ? short : trial.summary}`);
  return `<td ${head}><a class="cell ${css}" href="#${idOf(trial)}" data-tip="${tip}"><b aria-hidden="true">${sign}</b> <span>${escapeMarkup(short)}</span><small>${escapeMarkup(figureOf(trial))}</small></a></td>`;
}

/** The one number that says most about a cell. */
function figureOf({ findings: [worst], summary }: Trial): string {
  if (worst === 'locked for ever' || worst === 'call failed') return '';
  const wanted = worst === undefined ? /waited ([\d.]+ m?s)/ : /two held it for ([\d.]+ m?s)/;
  return wanted.exec(summary)?.[1] ?? '';
}

function idOf({ stage, accident }: Trial): string {
  return `t-${stage}-${accident}`;
}

function measuresSection(rows: readonly Row[]): string {
  const sales = rows.flatMap(({ stage, cells }) => {
    const trial = cells.find(({ accident }) => accident.id === 'sale')?.trial;
    return trial === undefined ? [] : [{ stage, measures: measuresOf(trial) }];
  });
  const [first] = sales;
  if (first === undefined) return '';
  const cell = ({ text, isBad }: Measure): string =>
    `<td${isBad ? ' class="bad"' : ''}>${escapeMarkup(text)}</td>`;
  const heads = first.measures.map(({ head }) => `<th scope="col">${escapeMarkup(head)}</th>`);
  const lines = sales.map(({ stage, measures }) =>
    stageRow(stage, numbered(stage), measures.map(cell)),
  );
  return `<section aria-labelledby="sale-head">
<h2 id="sale-head">The sale, measured</h2>
<p>100 pieces, 15 workers in 3 processes; each wants 10 pieces, up to 3 times. Right is: 10 purchases, 100 pieces sold, 100 gone.
A call is a purchase that sold, or that found nothing left: both need the lock.</p>
<div class="scroll wide" role="region" aria-label="What was measured in the sale" tabindex="0"><table class="measures">
<thead><tr><th scope="col">Stage</th>${heads.join('')}</tr></thead>
<tbody>${lines.join('\n')}</tbody></table></div></section>`;
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
  return `<section class="stage${stage.id === OURS ? ' ours' : ''}" id="stage-${stage.id}" aria-labelledby="stage-${stage.id}-head">
<h3 id="stage-${stage.id}-head">${numbered(stage)}</h3>
<p class="lesson">${escapeMarkup(stage.lesson)}</p>
<p class="breaks"><b>${stage.id === OURS ? 'What remains:' : 'Breaks:'}</b> ${escapeMarkup(stage.breaks)} <span class="count">${damaged} of ${trials.length} trials did damage.</span></p>
${articles.join('\n')}
</section>`;
}

function trialDetails({ accident }: Cell, trial: Trial): string {
  const timeline = timelineOf(trial);
  const isOpen = accident.id === 'sale';
  const label = `Timeline of stage ${trial.stage}, ${accident.name}. ${trial.summary}`;
  return `<details class="trial" id="${idOf(trial)}"${isOpen ? ' open' : ''}>
<summary>${chip(verdictOf(trial))} <span class="what">${escapeMarkup(accident.name)}</span> <span class="summary">${escapeMarkup(trial.summary)}</span></summary>
<p class="how">${escapeMarkup(accident.how)}.</p>
<div class="scroll">${timelineSvg(timeline, { label })}</div>
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
