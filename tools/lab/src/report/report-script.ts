/** What the page itself does: tips for the pointer and the arrow keys, cells that open their picture, and the theme. */
export const REPORT_SCRIPT = `
const tip = document.querySelector('.tip');
let shown;
function show(element, x, y) {
  if (shown) shown.classList.remove('shown');
  shown = element;
  element.classList.add('shown');
  tip.textContent = element.dataset.tip;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + 'px';
  tip.style.top = (y + 22 + box.height > innerHeight ? y - box.height - 12 : y + 18) + 'px';
}
function hide() {
  if (shown) shown.classList.remove('shown');
  shown = undefined;
  tip.hidden = true;
}
document.addEventListener('pointermove', (event) => {
  const element = event.target.closest && event.target.closest('[data-tip]');
  if (element) show(element, event.clientX, event.clientY);
  else if (event.pointerType === 'mouse') hide();
});
document.addEventListener('pointerdown', (event) => {
  const element = event.target.closest && event.target.closest('svg [data-tip]');
  if (element) show(element, event.clientX, event.clientY);
  else hide();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') return hide();
  const picture = event.target.closest && event.target.closest('svg.timeline');
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!picture || !step) return;
  event.preventDefault();
  const parts = [...picture.querySelectorAll('[data-tip]')].sort(
    (a, b) => a.getBoundingClientRect().left - b.getBoundingClientRect().left,
  );
  const next = parts[(parts.indexOf(shown) + step + parts.length) % parts.length];
  if (!next) return;
  const box = next.getBoundingClientRect();
  show(next, box.left + box.width / 2, box.bottom);
});
document.addEventListener('focusout', hide);
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target || target.tagName !== 'DETAILS') return;
  for (let each = target; each; each = each.parentElement.closest('details')) each.open = true;
  target.scrollIntoView({ block: 'start' });
  target.querySelector('summary').focus({ preventScroll: true });
}
addEventListener('hashchange', openTarget);
openTarget();
document.querySelector('[data-theme-switch]').addEventListener('click', () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = isDark ? 'light' : 'dark';
});
`;
