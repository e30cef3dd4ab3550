import { escapeMarkup } from 'kit';
import { measuresOf } from '../run/measures.js';
import { inSeconds } from '../run/summary.js';
import { LEASE_MS, RENEW_EVERY_MS, RETRY_MS, SCALE } from '../scale.js';
import { milliseconds } from './markup.js';
import { matrixOf, verdictOf } from './matrix.js';
import { REPORT_SCRIPT } from './report-script.js';
import { REPORT_STYLE } from './report-style.js';
import { timelineOf } from './timeline-model.js';
import { timelineSvg } from './timeline-svg.js';
import { VERDICTS } from './verdict-words.js';
/** The whole report, in one file that loads nothing from the network. */
export function reportHtml(trials, facts) {
    const { rows, accidents } = matrixOf(trials);
    const accidentTrials = trials.filter(({ accident }) => accident !== 'sale');
    const broken = accidentTrials.filter(({ findings }) => findings.length > 0);
    const ours = trials.filter(({ stage }) => stage === 17);
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
<h1>Sixteen ways to build a lock,<br>run until they break. And ours.</h1>
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
“Two holders” is judged by what the callers wrote down on one monotonic clock, never by the lock under test; the stock by the rows in PostgreSQL.</p>
</footer>
<div class="tip" role="status" aria-live="polite" hidden></div>
<script>${REPORT_SCRIPT}</script>
</body>
</html>
`;
}
function number(value, text, css = '') {
    return `<div${css === '' ? '' : ` class="${css}"`}><dt>${escapeMarkup(text)}</dt><dd>${escapeMarkup(value)}</dd></div>`;
}
function deviations({ deviations }) {
    if (deviations.length === 0)
        return '';
    const items = deviations.map((text) => `<li>${escapeMarkup(text)}</li>`).join('');
    return `<section class="differs"><h2>Differs from the expected results</h2><ul>${items}</ul></section>`;
}
/** Three stages in the same accident, side by side: the whole story at a glance. */
export const STORY = { accident: 'long-work', stages: [1, 13, 17] };
const STORY_TEXTS = {
    1: 'No lock. B reads the same 100 as A, and A overwrites what B has saved.',
    13: 'Lua release, no renewal. The lock runs out under A, and B walks in.',
    17: 'nestjs-locked. The lease is renewed until A has committed; then B enters.',
};
function hero(trials) {
    const chosen = STORY.stages.flatMap((stage) => trials.filter((trial) => trial.stage === stage && trial.accident === STORY.accident));
    if (chosen.length === 0)
        return '';
    const figures = chosen.map((trial) => {
        const { sold, start, left } = trial.stock;
        const result = `${sold} sold, ${start - left} gone from the stock`;
        return `<figure class="card"><figcaption>${verdictChip(trial)} ${escapeMarkup(STORY_TEXTS[trial.stage] ?? '')} <span class="result">${result}</span></figcaption>
<div class="scroll">${timelineSvg(timelineOf(trial), { label: `${STORY_TEXTS[trial.stage]} ${result}.`, bare: true })}</div></figure>`;
    });
    return `<section class="hero" aria-labelledby="hero-head"><h2 id="hero-head">The same work, three locks: A takes longer than its lock lasts</h2>${figures.join('')}</section>`;
}
function legend() {
    const items = Object.values(VERDICTS)
        .filter(({ short }) => short !== 'not told')
        .map(({ sign, short, meaning, css }) => `<li><span class="chip ${css}"><b aria-hidden="true">${sign}</b> ${escapeMarkup(short)}</span> ${escapeMarkup(meaning)}</li>`);
    return `<ul class="legend">${items.join('')}<li><span class="chip none"><b aria-hidden="true">·</b> cannot happen</span> The stage has nothing that could break there.</li></ul>`;
}
function matrixRow({ stage, cells }) {
    const css = stage.number === 17 ? ' class="ours"' : '';
    return `<tr${css}><th scope="row"><a href="#stage-${stage.number}"><span class="no">${stage.number}</span> ${escapeMarkup(stage.name)}</a></th>${cells.map(matrixCell).join('')}</tr>`;
}
function matrixCell({ accident, trial, cannot }) {
    const head = `data-head="${escapeMarkup(accident.name)}"`;
    if (trial === undefined) {
        const why = cannot ?? 'was not run';
        return `<td class="none" ${head}><span title="${escapeMarkup(why)}"><span aria-hidden="true">·</span><span class="unseen">${escapeMarkup(why)}</span></span></td>`;
    }
    const { sign, short, word, css } = VERDICTS[verdictOf(trial)];
    return `<td ${head}><a class="cell ${css}" href="#${idOf(trial)}" data-tip="${escapeMarkup(`${accident.name}: ${trial.summary === '' ? short : trial.summary}`)}"><b aria-hidden="true">${sign}</b> <span>${escapeMarkup(word)}</span><small>${escapeMarkup(figureOf(trial))}</small></a></td>`;
}
/** The one number that says most about a cell. */
function figureOf(trial) {
    const verdict = verdictOf(trial);
    if (verdict === 'locked for ever' || verdict === 'call failed')
        return '';
    const wanted = verdict === 'held' ? /waited ([\d.]+ m?s)/ : /two held it for ([\d.]+ m?s)/;
    return wanted.exec(trial.summary)?.[1] ?? '';
}
function verdictChip(trial) {
    const { sign, short, css } = VERDICTS[verdictOf(trial)];
    return `<span class="chip ${css}"><b aria-hidden="true">${sign}</b> ${escapeMarkup(short)}</span>`;
}
function idOf({ stage, accident }) {
    return `t-${stage}-${accident}`;
}
const MEASURES = [
    ['sold', ({ sold }) => `${sold}`],
    ['gone from the stock', ({ truth }) => `${truth}`, ({ sold, truth }) => sold !== truth],
    ['oversold', ({ oversold }) => `${oversold}`, ({ oversold }) => oversold > 0],
    ['lost updates', ({ lostUpdates }) => `${lostUpdates}`, ({ lostUpdates }) => lostUpdates > 0],
    ['overlaps', ({ overlaps }) => `${overlaps}`, ({ overlaps }) => overlaps > 0],
    ['failed attempts', ({ retries }) => `${retries}`],
    ['calls per second', ({ perSecond }) => perSecond.toFixed(0)],
    ['longest wait', ({ longestWaitMs }) => inSeconds(longestWaitMs)],
    ['Redis commands per call', ({ commandsPerPurchase }) => commandsPerPurchase.toFixed(1)],
    ['bytes per call', ({ bytesPerPurchase }) => bytesPerPurchase.toFixed(0)],
    [
        'connections held while waiting',
        ({ connectionsWaiting }) => `${connectionsWaiting}`,
        ({ connectionsWaiting }) => connectionsWaiting > 0,
    ],
];
function measuresSection(rows) {
    const sales = rows.flatMap(({ stage, cells }) => {
        const trial = cells.find(({ accident }) => accident.id === 'sale')?.trial;
        return trial === undefined ? [] : [{ stage, measures: measuresOf(trial) }];
    });
    if (sales.length === 0)
        return '';
    const lines = sales.map(({ stage, measures }) => {
        const cells = MEASURES.map(([, show, bad]) => `<td${bad?.(measures) === true ? ' class="bad"' : ''}>${escapeMarkup(show(measures))}</td>`);
        return `<tr${stage.number === 17 ? ' class="ours"' : ''}><th scope="row"><span class="no">${stage.number}</span> ${escapeMarkup(stage.name)}</th>${cells.join('')}</tr>`;
    });
    return `<section aria-labelledby="sale-head">
<h2 id="sale-head">The sale, measured</h2>
<p>100 pieces, 15 workers in 3 processes; each wants 10 pieces, up to 3 times. Right is: 10 purchases, 100 pieces sold, 100 gone.
A call is a purchase that sold, or that found nothing left: both need the lock.</p>
<div class="scroll wide" role="region" aria-label="What was measured in the sale" tabindex="0"><table class="measures">
<thead><tr><th scope="col">Stage</th>${MEASURES.map(([head]) => `<th scope="col">${escapeMarkup(head)}</th>`).join('')}</tr></thead>
<tbody>${lines.join('\n')}</tbody></table></div></section>`;
}
function pictureLegend() {
    const entry = (css, text) => `<li><svg viewBox="0 0 34 16" width="34" height="16" aria-hidden="true" class="timeline">${css}</svg> ${text}</li>`;
    return `<ul class="legend pictures" aria-label="What the pictures show">
${entry('<rect class="wait" x="1" y="5" width="32" height="6"/>', 'waits')}
${entry('<rect class="hold" x="1" y="2" width="32" height="12"/>', 'holds the lock')}
${entry('<rect class="tx" x="2" y="2" width="30" height="12"/>', 'transaction, dashed if undone')}
${entry('<rect class="both" x="1" y="2" width="32" height="12"/>', 'not alone')}
${entry('<rect class="pause" x="1" y="2" width="32" height="12"/>', 'process stands still')}
${entry('<path class="commit" d="M17 1l7 7-7 7-7-7z"/>', 'committed')}
${entry('<path class="rollback" d="M12 3l10 10m0-10l-10 10"/>', 'rolled back')}
${entry('<path class="command" d="M17 4v10"/>', 'Redis command')}
${entry('<rect class="key" x="1" y="5" width="32" height="6" rx="3"/>', 'key exists in Redis')}
</ul>`;
}
function stageSection({ stage, cells }) {
    const trials = cells.flatMap(({ trial }) => (trial === undefined ? [] : [trial]));
    const articles = cells.map((cell) => cell.trial === undefined ? '' : trialDetails(cell, cell.trial));
    const damaged = trials.filter(({ findings }) => findings.length > 0).length;
    return `<section class="stage${stage.number === 17 ? ' ours' : ''}" id="stage-${stage.number}" aria-labelledby="stage-${stage.number}-head">
<h3 id="stage-${stage.number}-head"><span class="no">${stage.number}</span> ${escapeMarkup(stage.name)}</h3>
<p class="lesson">${escapeMarkup(stage.lesson)}</p>
<p class="breaks"><b>${stage.number === 17 ? 'What remains:' : 'Breaks:'}</b> ${escapeMarkup(stage.breaks)} <span class="count">${damaged} of ${trials.length} trials did damage.</span></p>
${articles.join('\n')}
</section>`;
}
function trialDetails({ accident }, trial) {
    const timeline = timelineOf(trial);
    const isOpen = accident.id === 'sale';
    const label = `Timeline of stage ${trial.stage}, ${accident.name}. ${trial.summary}`;
    return `<details class="trial" id="${idOf(trial)}"${isOpen ? ' open' : ''}>
<summary>${verdictChip(trial)} <span class="what">${escapeMarkup(accident.name)}</span> <span class="summary">${escapeMarkup(trial.summary)}</span></summary>
<p class="how">${escapeMarkup(accident.how)}.</p>
<div class="scroll">${timelineSvg(timeline, { label })}</div>
${momentsList(timeline)}
<details class="as-table"><summary>The same as a table</summary><div class="scroll" role="region" aria-label="${escapeMarkup(`Stage ${trial.stage}, ${accident.name}, as a table`)}" tabindex="0">${timelineTable(timeline)}</div></details>
</details>`;
}
function momentsList({ moments }) {
    if (moments.length === 0)
        return '';
    const items = moments.map(({ at, text, kind }) => `<li data-kind="${kind}"><time>${milliseconds(at)}</time> ${escapeMarkup(text)}</li>`);
    return `<ol class="moments">${items.join('')}</ol>`;
}
function timelineTable({ lanes, waits, holds, transactions, results }) {
    const times = (spans, lane) => {
        const own = spans.filter((span) => span.lane === lane);
        return own.length === 0
            ? 'never'
            : own.map(({ from, until }) => `${milliseconds(from)} to ${milliseconds(until)}`).join(', ');
    };
    const rows = lanes.map((lane) => `<tr><th scope="row">${escapeMarkup(lane)}</th><td>${times(waits, lane)}</td><td>${times(holds, lane)}</td><td>${times(transactions, lane)}</td><td>${escapeMarkup(results.get(lane) ?? '')}</td></tr>`);
    return `<table><thead><tr><th scope="col">caller</th><th scope="col">waited</th><th scope="col">held the lock</th><th scope="col">transaction open</th><th scope="col">result</th></tr></thead><tbody>${rows.join('')}</tbody></table>`;
}
//# sourceMappingURL=report-html.js.map