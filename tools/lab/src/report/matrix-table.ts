import { escapeMarkup } from 'kit';
import type { Trial } from '../run/trial.js';
import { isOurs, type Stage } from '../stages/stage.js';
import {
  type Cell,
  LEGEND,
  type Mark,
  markOf,
  MARKS,
  type Matrix,
  type Verdict,
  verdictOf,
  VERDICTS,
} from './matrix.js';

/** A clock in a box of 10 by 10: the mark of a holder that was told late. */
export const CLOCK = '<circle cx="5" cy="5" r="4"/><path d="M5 2.6V5l1.9 1.3"/>';

const CLOCK_SVG = `<svg class="clock" viewBox="0 0 10 10" aria-hidden="true">${CLOCK}</svg>`;

/** The matrix of the report. On a phone, the name of a row is above its cells. */
export function matrixTable({ rows, accidents }: Matrix): string {
  const heads = accidents.map(
    ({ name, short }) =>
      `<th scope="col" title="${escapeMarkup(name)}"><span>${escapeMarkup(short)}</span></th>`,
  );
  const lines = rows.map(({ stage, cells }) => {
    const link = `<a href="#stage-${stage.id}">${numbered(stage)}</a>`;
    return stageRow(stage, link, cells.map(matrixCell));
  });
  return `<table class="matrix" style="--columns:${accidents.length}">
<thead><tr><th scope="col"><span>Lock</span></th>${heads.join('')}</tr></thead>
<tbody>
${lines.join('\n')}
</tbody>
</table>`;
}

/** What the colours and signs of the matrix mean. */
export function matrixLegend(): string {
  const item = (chip: string, meaning: string): string =>
    `<li>${chip} <span class="meaning">${escapeMarkup(meaning)}</span></li>`;
  const none = { css: 'none', sign: '·', short: 'cannot happen' };
  return `<ul class="legend" aria-label="What the signs mean">${[
    ...LEGEND.map((verdict) => item(chip(verdict), verdict.meaning)),
    ...MARKS.map((mark) => item(markChip(mark), VERDICTS[mark].meaning)),
    item(chip(none), 'not to this lock'),
  ].join('')}</ul>`;
}

/** The row of a stage. @param lead what stands in its first cell */
export function stageRow({ id }: Stage, lead: string, cells: readonly string[]): string {
  const css = isOurs(id) ? ' class="ours"' : '';
  return `<tr${css}><th scope="row">${lead}</th>${cells.join('')}</tr>`;
}

export function numbered({ id, name }: Stage): string {
  return `<span class="no">${id}</span> <span>${escapeMarkup(name)}</span>`;
}

export function idOf({ stage, accident }: Trial): string {
  return `t-${stage}-${accident}`;
}

export function chip({ css, sign, short }: Pick<Verdict, 'css' | 'sign' | 'short'>): string {
  return `<span class="chip ${css}"><b aria-hidden="true">${escapeMarkup(sign)}</b> ${escapeMarkup(short)}</span>`;
}

/** A mark with its words. */
export function markChip(mark: Mark): string {
  return `<span class="chip mark">${signOf(mark)} ${VERDICTS[mark].short}</span>`;
}

function signOf(mark: Mark): string {
  return mark === 'told late' ? CLOCK_SVG : '<b aria-hidden="true">…</b>';
}

function matrixCell({ accident, trial, cannot }: Cell): string {
  if (trial === undefined) {
    const why = escapeMarkup(cannot ?? 'was not run');
    return `<td class="none"><span title="${why}"><span aria-hidden="true">·</span><span class="unseen">${why}</span></span></td>`;
  }
  const { sign, short, css } = verdictOf(trial);
  const mark = markOf(trial);
  const tip = escapeMarkup(`${accident.name}: ${trial.summary === '' ? short : trial.summary}`);
  const unseen = mark === undefined ? short : `${short}, ${VERDICTS[mark].short}`;
  return (
    `<td><a class="cell ${css}" href="#${idOf(trial)}" data-tip="${tip}"><b aria-hidden="true">${escapeMarkup(sign)}</b>` +
    `${mark === undefined ? '' : signOf(mark)}<span class="unseen">${unseen}</span></a></td>`
  );
}
