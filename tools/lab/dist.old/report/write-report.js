import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ACCIDENTS } from '../accidents/index.js';
import { STAGES } from '../stages/index.js';
import { matrixSvg } from './matrix-svg.js';
import { reportHtml } from './report-html.js';
import { storySvg } from './story-svg.js';
import { timelineOf } from './timeline-model.js';
import { timelineSvg } from './timeline-svg.js';
/** The pictures that documents show. */
const PICTURED = [
    { stage: 8, accident: 'p1-p2-p3' },
    { stage: 13, accident: 'pause' },
    { stage: 17, accident: 'pause' },
];
/** Writes `lab-report.html`, pictures for documents, and what was recorded. @returns the files' paths */
export function writeReport(folder, trials, facts) {
    const files = new Map([
        ['lab-report.html', reportHtml(trials, facts)],
        ['lab-trials.json', JSON.stringify(trials)],
        ['matrix.svg', matrixSvg(trials)],
    ]);
    const story = storySvg(trials);
    if (story !== undefined)
        files.set('three-locks.svg', story);
    for (const wanted of PICTURED) {
        const trial = trials.find(({ stage, accident }) => stage === wanted.stage && accident === wanted.accident);
        if (trial === undefined)
            continue;
        const stage = STAGES.find(({ number }) => number === trial.stage);
        const accident = ACCIDENTS.find(({ id }) => id === trial.accident);
        const heading = `${trial.stage}. ${stage?.name}: ${accident?.name}`;
        const label = `${heading}. ${trial.summary}`;
        files.set(`${trial.stage}-${trial.accident}.svg`, timelineSvg(timelineOf(trial), { label, heading, standalone: true }));
    }
    mkdirSync(folder, { recursive: true });
    return [...files].map(([name, text]) => {
        const path = join(folder, name);
        writeFileSync(path, text);
        return path;
    });
}
//# sourceMappingURL=write-report.js.map