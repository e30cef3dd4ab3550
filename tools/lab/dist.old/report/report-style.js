import { colourVariables } from 'kit';
import { CELLS_DARK, CELLS_LIGHT } from './matrix-svg.js';
import { DARK, LIGHT, TIMELINE_STYLE } from './timeline-svg.js';
const PAGE_LIGHT = { ground: '#f4f6fa', link: '#1b4fb5', bad: '#b3141f', accent: '#0b5a39' };
const PAGE_DARK = { ground: '#0b0e13', link: '#8db6ff', bad: '#ff8a92', accent: '#8ff0c1' };
const light = colourVariables({ ...LIGHT, ...CELLS_LIGHT, ...PAGE_LIGHT });
const dark = colourVariables({ ...DARK, ...CELLS_DARK, ...PAGE_DARK });
export const REPORT_STYLE = `
:root{${light};color-scheme:light dark}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){${dark}}}
:root[data-theme=dark]{${dark};color-scheme:dark}
:root[data-theme=light]{color-scheme:light}
*{box-sizing:border-box}
html{scroll-padding-top:1rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
header.top,main,footer{max-width:1560px;margin:0 auto;padding:0 clamp(16px,3vw,40px)}
header.top{padding-top:clamp(28px,6vw,72px);position:relative}
h1{font-size:clamp(1.9rem,4.6vw,3.5rem);line-height:1.08;letter-spacing:-.025em;margin:.2em 0 .45em;font-weight:760;text-wrap:balance}
h2{font-size:clamp(1.3rem,2.2vw,1.7rem);letter-spacing:-.015em;line-height:1.2;margin:0 0 .5em}
h3{font-size:1.25rem;letter-spacing:-.01em;margin:0 0 .3em}
p{max-width:72ch;margin:0 0 1em}
a{color:var(--link)}
.kicker{font-weight:650;color:var(--soft);margin:0;font-size:.95rem}
.lead{font-size:clamp(1.02rem,1.5vw,1.2rem);color:var(--soft);max-width:68ch}
.skip{position:absolute;left:-999px}.skip:focus{left:16px;top:8px;background:var(--page);padding:8px 12px;z-index:9}
.theme{position:absolute;right:clamp(16px,3vw,40px);top:20px;font:inherit;font-size:.85rem;color:var(--ink);background:var(--page);border:1px solid var(--line);border-radius:999px;padding:6px 14px;cursor:pointer}
:focus-visible{outline:3px solid var(--hold);outline-offset:2px;border-radius:4px}
.numbers{display:flex;align-items:flex-start;flex-wrap:wrap;gap:12px 44px;margin:1.6em 0 0}
.numbers div{display:flex;flex-direction:column-reverse;justify-content:flex-end;max-width:15em}
.numbers dd{margin:0;font-size:2.3rem;font-weight:740;letter-spacing:-.03em;line-height:1.1;font-variant-numeric:tabular-nums}
.numbers dt{color:var(--soft);font-size:.92rem;line-height:1.35}
.numbers .good dd{color:var(--accent)}
main>section{margin:clamp(36px,6vw,76px) 0}
.hero{display:grid;gap:14px}.hero>*{min-width:0}.hero h2{margin:0}
.card{margin:0;background:var(--page);border:1px solid var(--line);border-radius:12px;padding:14px 18px 8px}
.card figcaption{display:flex;flex-wrap:wrap;gap:4px 12px;align-items:baseline;font-weight:560}
.card .result{color:var(--soft);font-weight:400;font-variant-numeric:tabular-nums}
.scroll{position:relative;overflow-x:auto;overscroll-behavior-x:contain}
svg.timeline{display:block;width:100%;min-width:760px;height:auto}
.legend svg.timeline{display:inline-block;width:34px;min-width:0;vertical-align:-3px}
.legend{list-style:none;padding:0;margin:0 0 1.2em;display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:8px 22px;font-size:.88rem;color:var(--soft)}
.legend.pictures{display:flex;flex-wrap:wrap;gap:6px 22px}
.chip{display:inline-block;border-radius:6px;padding:1px 8px;font-size:.84rem;font-weight:620;white-space:nowrap}
.held{background:var(--held);color:var(--heldInk)}
.wrong{background:var(--wrong);color:var(--wrongInk)}
.two{background:var(--two);color:var(--twoInk)}
.ever{background:var(--ever);color:var(--everInk)}
.failed{background:var(--failed);color:var(--failedInk)}
.chip.none{background:transparent;color:var(--soft);border:1px solid var(--line)}
.wide{background:var(--page);border:1px solid var(--line);border-radius:12px}
table{border-collapse:separate;border-spacing:0;font-size:.86rem;font-variant-numeric:tabular-nums}
.matrix{table-layout:fixed;width:100%;min-width:1260px;padding:0 10px 10px 0}.matrix thead th:first-child{width:186px}
.matrix th{font-weight:560;text-align:left}
.matrix thead th{vertical-align:bottom;padding:12px 2px 8px 4px;font-size:.63rem;letter-spacing:-.01em;hyphens:auto;line-height:1.2;color:var(--soft);font-weight:560}

.matrix thead th:first-child{padding-left:16px}
.matrix tbody th{position:sticky;left:0;background:var(--page);padding:2px 10px 2px 16px;line-height:1.25;z-index:1}.matrix tbody th a{display:grid;grid-template-columns:1.9em 1fr}
.matrix tbody th a{color:var(--ink);text-decoration:none}.matrix tbody th a:hover{text-decoration:underline}
.no{display:inline-block;min-width:1.6em;color:var(--soft);font-weight:500;font-variant-numeric:tabular-nums}
.matrix td{padding:2px;text-align:center}
.matrix td.none{color:var(--soft)}
.cell{display:block;min-height:42px;border-radius:7px;padding:5px 2px 4px;white-space:nowrap;text-decoration:none;line-height:1.15;font-size:.76rem;font-weight:600}
.cell b{font-size:.86rem}.cell small{display:block;font-weight:500;font-size:.72rem;margin-top:1px}
.cell:hover{outline:2px solid var(--ink);outline-offset:0}
tr.ours th,tr.ours td{border-top:2px solid var(--ink)}
tr.ours th a,tr.ours th{font-weight:760}
.measures{min-width:100%}
.measures th,.measures td{padding:7px 12px;text-align:right;border-bottom:1px solid var(--line)}
.measures thead th{font-size:.76rem;line-height:1.2;color:var(--soft);font-weight:560;vertical-align:bottom;min-width:76px}
.measures th:first-child{text-align:left;position:sticky;left:0;background:var(--page);white-space:nowrap;font-weight:560}
.bad{color:var(--bad);font-weight:700}
.accidents{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));gap:14px 28px;margin:0}
.accidents dt{font-weight:640}.accidents dd{margin:0;color:var(--soft);font-size:.92rem}
.stage{background:var(--page);border:1px solid var(--line);border-radius:14px;padding:clamp(16px,2.4vw,28px);margin:0 0 20px}
.stage.ours{border:2px solid var(--heldInk)}
.lesson{font-size:1.05rem;margin:0 0 .2em}.breaks{color:var(--soft);margin-bottom:1em}.breaks b{color:var(--ink);font-weight:620}
.count{white-space:nowrap}
.trial{border-top:1px solid var(--line);padding:2px 0}
.trial>summary .chip{justify-self:start}.trial>summary{cursor:pointer;padding:9px 2px;display:grid;grid-template-columns:7.6em 20em 1fr;gap:2px 14px;align-items:baseline;list-style:none}
.trial>summary::-webkit-details-marker{display:none}
.trial>summary .what{font-weight:580}.trial>summary .what::before{content:"+";display:inline-block;width:1.1em;color:var(--soft);font-weight:500}
.trial[open]>summary .what::before{content:"–"}
.summary{color:var(--soft);font-size:.9rem}
.how{color:var(--soft);font-size:.92rem;margin:2px 0 8px}
.moments{margin:6px 0 8px;padding:0;list-style:none;counter-reset:moment;font-size:.9rem;display:grid;gap:3px}
.moments li{counter-increment:moment}
.moments li::before{content:counter(moment);display:inline-block;min-width:1.55em;margin-right:.6em;text-align:center;border-radius:99px;background:var(--mark);color:var(--onMark);font-weight:700;font-size:.78rem;line-height:1.55em}
.moments [data-kind=killed]::before,.moments [data-kind=failed]::before{background:var(--both)}.moments [data-kind=told]::before{background:var(--commit)}
.moments time{display:inline-block;min-width:4.6em;color:var(--soft);font-variant-numeric:tabular-nums}
.as-table{margin:0 0 14px;font-size:.9rem}.as-table>summary{cursor:pointer;color:var(--soft);padding:4px 0}
.as-table th,.as-table td{text-align:left;padding:4px 16px 4px 0;vertical-align:top;border-bottom:1px solid var(--line);font-weight:400;min-width:9em}
.as-table th{font-weight:600;min-width:4em}
.tip{position:fixed;z-index:10;max-width:min(360px,calc(100vw - 16px));background:var(--ink);color:var(--page);padding:6px 10px;border-radius:8px;font-size:.84rem;line-height:1.35;pointer-events:none}
.timeline .shown{filter:brightness(1.12) drop-shadow(0 0 2px var(--ink))}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.differs{border:2px solid var(--bad);border-radius:12px;padding:16px 20px;background:var(--page)}
footer{padding-top:8px;padding-bottom:56px;color:var(--soft);font-size:.88rem}
footer p{max-width:96ch}
@media (max-width:760px){
.theme{position:static;margin-top:18px}
.numbers{gap:14px 28px}.numbers dd{font-size:1.8rem}
.trial>summary{grid-template-columns:auto 1fr}.trial>summary .summary{grid-column:1/-1}
.matrix,.matrix tbody,.matrix tr,.matrix tbody th,.matrix td{display:block}
.matrix thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
.matrix{padding:0;min-width:0}.matrix tr{display:grid;grid-template-columns:1fr 1fr;gap:5px;padding:14px;border-top:1px solid var(--line)}
.matrix tbody th{grid-column:1/-1;position:static;padding:0 0 2px;white-space:normal;font-size:1rem}
.matrix td{padding:0;text-align:left}.matrix td.none{display:none}
.matrix td::before{content:attr(data-head);display:block;font-size:.74rem;line-height:1.25;color:var(--soft);margin-bottom:2px}
.matrix td{display:flex;flex-direction:column;justify-content:flex-end}
.cell{min-height:0;padding:6px 8px}.cell small{display:inline;margin-left:6px}
tr.ours th,tr.ours td{border-top:0}.matrix tr.ours{border-top:3px solid var(--heldInk)}
.measures th:first-child{white-space:normal;min-width:8.5em}
}
@media print{.theme,.skip{display:none}}
${TIMELINE_STYLE}
`.replaceAll('\n', '');
//# sourceMappingURL=report-style.js.map