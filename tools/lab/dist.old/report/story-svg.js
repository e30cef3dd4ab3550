import { STORY } from './report-html.js';
import { timelineOf } from './timeline-model.js';
import { timelineSvg } from './timeline-svg.js';
const HEADINGS = {
    1: 'No lock: both read 100, both save 90',
    13: 'Lua lock without renewal: it runs out while A works',
    17: 'nestjs-locked: B enters after A has committed',
};
/** Three small pictures of the same work in one file: with no lock, with a lock without renewal, and with ours. */
export function storySvg(trials) {
    const pictures = STORY.stages.flatMap((stage) => {
        const trial = trials.find((each) => each.stage === stage && each.accident === STORY.accident);
        const heading = HEADINGS[stage] ?? '';
        if (trial === undefined)
            return [];
        return timelineSvg(timelineOf(trial), {
            label: heading,
            heading,
            bare: true,
            standalone: true,
        });
    });
    if (pictures.length < STORY.stages.length)
        return undefined;
    let top = 0;
    const placed = pictures.map((picture) => {
        const [, width = '0', height = '0'] = /viewBox="0 0 ([\d.]+) ([\d.]+)"/.exec(picture) ?? [];
        const at = top;
        top += Number(height) + 8;
        return picture.replace('<svg ', `<svg x="0" y="${at}" width="${width}" height="${height}" `);
    });
    return (`<svg viewBox="0 0 1000 ${top - 8}" role="img" xmlns="http://www.w3.org/2000/svg" ` +
        `aria-label="Two buyers of the last pieces: without a lock, with a lock that runs out, with nestjs-locked">` +
        `${placed.join('')}</svg>`);
}
//# sourceMappingURL=story-svg.js.map