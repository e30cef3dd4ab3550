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
header.top,main,footer{max-width:1560px;margin:0 auto;padding:0 clamp(8px,2vw,28px)}
header.top{padding-top:12px;display:grid;grid-template-columns:1fr auto;gap:2px 16px;align-items:start}
h1{font-size:clamp(1.2rem,2.1vw,1.7rem);line-height:1.15;letter-spacing:-.02em;margin:0;font-weight:760;text-wrap:balance}
h2{font-size:1.12rem;letter-spacing:-.01em;line-height:1.25;margin:0}
h3{font-size:1rem;letter-spacing:-.005em;margin:0;font-weight:640}
p{max-width:72ch;margin:0 0 1em}
a{color:var(--link)}
.lead{font-size:.92rem;line-height:1.4;color:var(--soft);max-width:none;margin:0;grid-column:1/-1}.lead b{color:var(--ink);font-weight:620}
.skip{position:absolute;left:-999px}.skip:focus{left:16px;top:8px;background:var(--page);padding:8px 12px;z-index:9}
.theme{font:inherit;font-size:.8rem;color:var(--ink);background:var(--page);border:1px solid var(--line);border-radius:999px;padding:3px 12px;cursor:pointer;white-space:nowrap}
:focus-visible{outline:3px solid var(--hold);outline-offset:2px;border-radius:4px}
main>*{margin:clamp(16px,2vw,26px) 0}#matrix{margin-top:8px}
.hero{display:grid;gap:14px}.hero>*{min-width:0}.hero h2{margin:0}
.card{margin:0;background:var(--page);border:1px solid var(--line);border-radius:12px;padding:14px 18px 8px}
.card figcaption{display:flex;flex-wrap:wrap;gap:4px 12px;align-items:baseline;font-weight:560}
.card .result{color:var(--soft);font-weight:400;font-variant-numeric:tabular-nums}
.scroll{position:relative;overflow-x:auto;overscroll-behavior-x:contain;background:linear-gradient(90deg,transparent,var(--page) 30%) right/26px 100% local no-repeat,linear-gradient(90deg,transparent,var(--line)) right/10px 100% scroll no-repeat}
svg.timeline{display:block;width:100%;min-width:760px;height:auto}
.legend svg.timeline{display:inline-block;width:34px;min-width:0;vertical-align:-3px}
.legend{list-style:none;padding:0;margin:0 0 8px;display:grid;grid-template-columns:repeat(4,auto);justify-content:space-between;gap:3px 14px;font-size:.76rem;color:var(--soft)}
.legend.pictures{display:flex;flex-wrap:wrap;justify-content:flex-start;gap:6px 22px;margin:0 0 12px}
.chip{display:inline-block;border-radius:6px;padding:0 7px;font-size:.8rem;font-weight:620;white-space:nowrap}
.chip.mark{border:1px solid var(--line);color:var(--ink)}
.clock{width:.95em;height:.95em;vertical-align:-.12em;fill:none;stroke:currentColor;stroke-width:1.3}
.held{background:var(--held);color:var(--heldInk)}
.wrong{background:var(--wrong);color:var(--wrongInk)}
.two{background:var(--two);color:var(--twoInk)}
.ever{background:var(--ever);color:var(--everInk)}
.failed{background:var(--failed);color:var(--failedInk)}
.chip.none{background:transparent;color:var(--soft);border:1px solid var(--line)}
.frame{background:var(--page);border:1px solid var(--line);border-radius:12px}
table{border-collapse:separate;border-spacing:0;font-size:.84rem;font-variant-numeric:tabular-nums}
.matrix{table-layout:fixed;width:100%;padding:0 6px 6px 0}
.matrix th{font-weight:500;text-align:left}
.matrix thead th{vertical-align:bottom;padding:6px 1px 4px;font-size:.7rem;letter-spacing:-.01em;line-height:1.15;color:var(--soft);text-align:center}
.matrix thead th:first-child{width:248px;text-align:left;padding-left:12px}
.matrix tbody th{padding:0 4px 0 12px;line-height:1.2;white-space:nowrap;font-size:.78rem}.matrix tbody th a{display:grid;grid-template-columns:2.5em 1fr;color:var(--ink);text-decoration:none}.matrix tbody th a:hover{text-decoration:underline}
.no{display:inline-block;min-width:1.8em;color:var(--soft);font-weight:500;font-variant-numeric:tabular-nums}
.matrix td{padding:1px;text-align:center}
.matrix td.none{color:var(--soft)}.matrix td.none>span{cursor:help}
.cell{position:relative;display:block;height:22px;border-radius:5px;white-space:nowrap;text-decoration:none;line-height:22px;font-size:.68rem;font-weight:600}
.cell b{font-size:.8rem}.cell b+.clock,.cell b+b{margin-left:5px}.cell .clock{width:11px;height:11px}
.cell:hover{outline:2px solid var(--ink);outline-offset:0}
tr.ours th,tr.ours td{border-top:2px solid var(--ink)}
tr.ours th a,tr.ours th{font-weight:760}
.measures{width:100%}
.measures th,.measures td{padding:4px 8px;text-align:right;border-bottom:1px solid var(--line)}
.measures thead th{font-size:.74rem;line-height:1.2;color:var(--soft);font-weight:560;vertical-align:bottom}
.measures th:first-child{text-align:left;font-weight:560}
.bad{color:var(--bad);font-weight:700}
.accidents{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));gap:14px 28px;margin:0}
.accidents dt{font-weight:640}.accidents dd{margin:0;color:var(--soft);font-size:.92rem}
.fold{background:var(--page);border:1px solid var(--line);border-radius:12px;padding:0 clamp(10px,1.6vw,20px)}
.fold+.fold{margin-top:-8px}
summary{cursor:pointer}
.fold>summary,.stage>summary{list-style:none;padding:10px 0;display:flex;flex-wrap:wrap;gap:2px 14px;align-items:baseline}
.fold>summary::-webkit-details-marker,.stage>summary::-webkit-details-marker{display:none}
.fold>summary::before,.stage>summary::before{content:"+";width:.7em;color:var(--soft)}.fold[open]>summary::before,.stage[open]>summary::before{content:"–"}
.fold[open]{padding-bottom:14px}
.stage{border-top:1px solid var(--line)}.stage[open]{padding-bottom:12px}
.stage.ours>summary h3{font-weight:760}
.lesson{margin:0 0 .2em}.breaks{color:var(--soft);margin-bottom:.8em}.breaks b{color:var(--ink);font-weight:620}
.count{white-space:nowrap;color:var(--soft);font-size:.86rem;margin-left:auto}
.trial{border-top:1px solid var(--line);padding:2px 0}
.trial>summary{padding:7px 2px;display:grid;grid-template-columns:14.8em 17em 1fr;gap:2px 14px;align-items:baseline;list-style:none}
.trial>summary::-webkit-details-marker{display:none}
.trial>summary .what{font-weight:580}.trial>summary .what::before{content:"+";display:inline-block;width:1.1em;color:var(--soft);font-weight:500}
.trial[open]>summary .what::before{content:"–"}
.summary{color:var(--soft);font-size:.9rem}
.how{color:var(--soft);font-size:.92rem;margin:2px 0 8px}
.moments{margin:6px 0 8px;padding:0;list-style:none;counter-reset:moment;font-size:.9rem;display:grid;gap:3px}
.moments li{counter-increment:moment}
.moments li::before{content:counter(moment);display:inline-block;min-width:1.55em;margin-right:.6em;text-align:center;border-radius:99px;background:var(--mark);color:var(--onMark);font-weight:700;font-size:.78rem;line-height:1.55em}
.moments [data-kind=killed]::before,.moments [data-kind=failed]::before{background:var(--both)}.moments [data-kind=told]::before{background:var(--commit)}.moments [data-kind=late]::before{background:var(--late)}
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
.for-phone{display:none}.for-desk svg.timeline,.for-phone svg.timeline{min-width:0}
.matrix thead th span{display:inline-block}
@media (max-width:1000px){.legend{grid-template-columns:repeat(2,auto)}}
@media (max-width:960px){
.legend{display:flex;flex-wrap:wrap;gap:4px 8px}.meaning{display:none}
.trial>summary{grid-template-columns:1fr}
.frame{padding:0 4px}
.matrix,.matrix tbody,.matrix thead,.matrix tbody th,.matrix td{display:block}.matrix{padding:0 0 6px}
.matrix tr{display:grid;grid-template-columns:repeat(var(--columns),minmax(0,1fr))}
.matrix thead{position:sticky;top:0;z-index:2;background:var(--page);border-radius:12px 12px 0 0;border-bottom:1px solid var(--line)}
.matrix thead th:first-child{display:none}
.matrix thead th{padding:8px 0 4px;display:flex;justify-content:center;align-items:flex-end;line-height:1}
.matrix thead th span{writing-mode:vertical-rl;transform:rotate(180deg);white-space:nowrap;font-size:.74rem}
.matrix tbody th{grid-column:1/-1;padding:5px 2px 1px;white-space:normal}.matrix tbody th a{grid-template-columns:2.3em 1fr}
.matrix td{padding:0 .5px}.matrix td.none{line-height:22px}
.cell{border-radius:4px}.cell b{font-size:.74rem}.cell b+b{position:absolute;right:1px;top:-5px;margin:0}.cell b+.clock{position:absolute;right:0;top:1px;width:8px;height:8px;margin:0}.cell:has(.clock),.cell:has(b+b){padding-right:5px}
tr.ours td{border-top:0}
.measures,.measures tbody,.measures tbody th,.measures td{display:block}.measures thead{display:none}
.measures tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(100px,1fr));gap:2px 10px;padding:8px 6px;border-bottom:1px solid var(--line)}
.measures th:first-child{grid-column:1/-1}.measures th,.measures td{padding:0;border:0;text-align:left}
.measures td::before{content:attr(data-head);display:block;font-size:.72rem;line-height:1.2;color:var(--soft);font-weight:400}
}
@media (max-width:640px){
.for-desk{display:none}.for-phone{display:block}
.card{padding:10px 8px 4px}.legend{font-size:.76rem}
h1{font-size:1.12rem}.lead{font-size:.84rem}
}
@media print{.theme,.skip{display:none}}
${TIMELINE_STYLE}
`.replaceAll('\n', '');
