// When the page first settled, and how many long tasks began a second later or after that.
globalThis.drawn = 0;
const tasks = [];
globalThis.longTasks = () =>
  tasks.filter((one) => one.startTime > globalThis.drawn + 1000 && one.duration > 200).length;
new PerformanceObserver((list) => tasks.push(...list.getEntries())).observe({ type: "longtask", buffered: true });
new MutationObserver(() => {
  if (!globalThis.drawn && document.documentElement?.dataset.settled) globalThis.drawn = performance.now();
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-settled"] });
