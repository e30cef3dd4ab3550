/** Colours come from the site's theme where it has them. */
export const STYLE = `
:host{display:block;margin:16px 0}
.simulator{
--p1:light-dark(#1d5fd6,#7ab0ff);--p2:light-dark(#b3450b,#ffa66b);--p3:light-dark(#0b7261,#4fd1b5);--p4:light-dark(#7a34c9,#c9a0ff);--other:light-dark(#5c5f66,#a3a7b0);
--ink:var(--vp-c-text-1,light-dark(#222,#eee));--soft:light-dark(#55585f,#aeb2bb);--line:light-dark(#d9dade,#3a3b42);--card:light-dark(#fff,#202127);--ground:light-dark(#f4f5f7,#161618);
--on:light-dark(#fff,#101114);--bad:light-dark(#b3162b,#ff8d98);--good:light-dark(#14652f,#7bd88f);--fault:light-dark(#8a4b00,#ffc069);
color:var(--ink);font:14px/1.4 var(--vp-font-family-base,system-ui,sans-serif);font-variant-numeric:tabular-nums}
*{box-sizing:border-box}
button,select,input{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:7px;padding:3px 9px;min-height:30px}
button{cursor:pointer}button:hover:not(:disabled){border-color:var(--ink)}button:disabled{color:var(--soft);opacity:.6;cursor:default}
:focus-visible{outline:2px solid var(--p1);outline-offset:2px}
input{width:5em}
.controls{display:flex;flex-wrap:wrap;justify-content:space-between;gap:8px 14px;margin-bottom:12px}
.controls>div{display:flex;flex-wrap:wrap;gap:6px;align-items:center}.controls label{display:flex;gap:5px;align-items:center}
.play{min-width:74px;background:var(--ink);color:var(--card);border-color:var(--ink);font-weight:650}
.time{font-weight:650;min-width:5.6em;text-align:right}
.slow{color:var(--soft);font-size:12.5px;opacity:0;transition:opacity .15s}.slow.on{opacity:1}
.said{margin:0;flex-basis:100%;min-height:1.4em;color:var(--soft);overflow-wrap:anywhere}
.said:empty{display:none}
.stage{display:grid;grid-template-columns:minmax(220px,1.15fr) minmax(110px,1fr) minmax(220px,1fr);gap:10px 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:11px;padding:9px 12px;min-width:0}
.process{grid-column:1;border-left:5px solid var(--of);min-height:86px;display:flex;flex-direction:column;gap:6px}.process header{justify-content:flex-start}.process .buttons{margin-left:auto}
.wire{grid-column:2;align-self:stretch}
.server{grid-column:3;grid-row:1/span var(--rows);display:flex;flex-direction:column;gap:8px}
header{display:flex;justify-content:space-between;align-items:center;gap:8px}
.state{color:var(--soft);font-size:12.5px}
.chip{display:inline-block;background:var(--of);color:var(--on);border-radius:6px;padding:0 8px;font-weight:650}
.calls{list-style:none;margin:0;padding:0;flex:1;font-size:13.5px}
.calls li{display:flex;justify-content:space-between;gap:10px;padding:1px 0}
.calls span{overflow-wrap:anywhere}.calls small,.key small{font-size:12.5px;color:var(--soft);white-space:nowrap}
.holding span{font-weight:650}.idle span{color:var(--soft)}.late span,.late small,.bad span{color:var(--bad)}
.process[data-state=paused]{background:repeating-linear-gradient(135deg,var(--card) 0 9px,var(--ground) 9px 18px)}
.process[data-state=paused] .state,.server[data-state=down] .state,.server[data-state=paused] .state{color:var(--fault);font-weight:650}
.process[data-state=dead]{background:var(--ground);border-left-color:var(--other)}.process[data-state=dead] .state{color:var(--bad);font-weight:650}
.buttons{display:flex;flex-wrap:wrap;gap:5px}.buttons button{font-size:12.5px;padding:1px 8px;min-height:26px}
.server[data-state=down]{background:var(--ground);border-style:dashed}
.keys{flex:1;display:grid;gap:12px;align-content:start}
.key{display:grid;gap:4px}
.key code{font:600 13px var(--vp-font-family-mono,monospace)}
.owner{display:flex;justify-content:space-between;align-items:center;min-height:22px}
.nobody{color:var(--soft);margin:0}
.key .lease{height:8px;border-radius:4px;background:var(--ground);border:1px solid var(--line);overflow:hidden}.key .lease i{display:block;height:100%;background:var(--of)}
.queue{min-height:22px;display:flex;gap:5px;align-items:center;color:var(--soft);font-size:13px}
.wire{position:relative;min-height:44px}
.wire::before{content:"";position:absolute;left:0;right:0;top:50%;border-top:2px solid var(--line)}
.wire.cut::before{border-top:2px dashed var(--bad)}
.wire.cut::after{content:"cut";position:absolute;left:50%;top:50%;transform:translate(-50%,-50%);background:var(--card);color:var(--bad);border:1px solid var(--bad);border-radius:6px;padding:0 6px;font-size:12px}
.end{display:none}
.message{position:absolute;left:calc(10px + (100% - 20px)*var(--at));top:50%;width:0;height:0}
.message i{position:absolute;left:-6px;top:-6px;width:12px;height:12px;border-radius:50%;background:var(--of);border:2px solid var(--card)}
.message em{position:absolute;left:0;transform:translateX(calc(-100%*var(--at)));font-style:normal;font-size:12.5px;font-weight:600;white-space:nowrap;color:var(--of)}
.message.there em{bottom:calc(8px + 16px*var(--level))}.message.back em{top:calc(8px + 16px*var(--level))}
.message.back i{border-color:var(--of);background:var(--card)}
.faint i{opacity:.45}.faint em{color:var(--soft);font-weight:400}.held i{opacity:.35}.held em{display:none}
svg.picture{display:block;width:100%;margin:10px 0 8px;background:var(--card);border:1px solid var(--line);border-radius:11px;padding:8px 6px 2px 10px;box-sizing:content-box;width:calc(100% - 18px)}
.picture text{font-size:12px;fill:var(--ink)}.picture text.key{font-family:var(--vp-font-family-mono,monospace)}.picture text.axis{fill:var(--soft);font-size:11px}
.picture .base{stroke:var(--line);stroke-width:.6}.picture .tick{stroke:var(--line);stroke-width:.6;stroke-dasharray:2 3}.picture .now{stroke:var(--ink);stroke-width:1.2}
.picture rect{fill:var(--of)}
.picture .waiting{opacity:.45}.picture .late{fill:none;stroke:var(--bad);stroke-width:1.4;stroke-dasharray:4 3}
.picture .lease{opacity:.85}
.picture .paused,.picture .away{fill:var(--fault);opacity:.18}.picture .dead{fill:var(--ink);opacity:.16}
.below{display:grid;grid-template-columns:1.6fr 1fr;gap:18px}
.log{height:176px;overflow-y:auto;border:1px solid var(--line);border-radius:11px;background:var(--card);padding:7px 12px;font-size:13px}
.log ol{list-style:none;margin:0;padding:0}
.log li{display:grid;grid-template-columns:4.8em 1fr;gap:4px}
.log span{overflow-wrap:anywhere}
.log time{color:var(--soft)}.quiet span{color:var(--soft)}.good span{color:var(--good);font-weight:600}.log .bad span{color:var(--bad);font-weight:600}.fault span{color:var(--fault);font-weight:600}
.legend{font-size:12.5px;color:var(--soft)}.legend ul{list-style:none;margin:0 0 8px;padding:0;display:grid;gap:3px}
.legend li{display:grid;grid-template-columns:34px 1fr;gap:8px;align-items:center}.legend p{margin:0}
.sample{display:block;height:12px;border-radius:3px;background:var(--p1)}
.sample.waiting{height:5px;opacity:.45}.sample.late{background:none;border:1.4px dashed var(--bad)}.sample.lease{background:var(--p2)}
.sample.there,.sample.back{width:12px;border-radius:50%;border:2px solid var(--p1)}.sample.back{background:none}.sample.paused{background:var(--fault);opacity:.3}.sample.dead{background:var(--ink);opacity:.25}
@media (max-width:760px){
.stage{grid-template-columns:1fr;gap:0}
.server,.process,.wire{grid-column:1;grid-row:auto}
.server{margin-bottom:10px}.process{min-height:88px}
.wire{min-height:40px;margin:0 6px 8px}.wire::before{left:26px;right:42px}
.message{left:calc(36px + (100% - 88px)*var(--at))}
.end{display:block;position:absolute;left:0;top:50%;transform:translateY(-50%);font-size:12px;color:var(--soft)}.end.there{left:auto;right:0}
.below{grid-template-columns:1fr}
.keys{grid-template-columns:repeat(auto-fit,minmax(150px,1fr))}
button,select,input{min-height:34px}.buttons button{min-height:32px}
}
`.replaceAll('\n', '');
