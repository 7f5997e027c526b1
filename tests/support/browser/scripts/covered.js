// Focus everything that can be used, one after the other: what is behind something else then, or outside of the window.
const found = [];
for (const one of document.querySelectorAll("a[href], button:enabled, input:enabled, select:enabled, textarea, summary, [tabindex='0']")) {
  if (!one.checkVisibility() || !one.getClientRects().length) continue;
  one.focus();
  const box = one.getBoundingClientRect();
  const x = Math.max(0, Math.min(innerWidth - 1, (box.left + box.right) / 2));
  const y = Math.max(0, Math.min(innerHeight - 1, (box.top + box.bottom) / 2));
  const top = document.elementFromPoint(x, y);
  if (!top || !(one.contains(top) || top.contains(one) || one.closest("label")?.contains(top))) found.push(one.outerHTML.slice(0, 120));
}
return found;
