// Before the page runs: have "listening" count what listens to the window, the document and the media queries.
globalThis.listening = 0;
for (const [name, change] of [["addEventListener", 1], ["removeEventListener", -1]]) {
  const real = EventTarget.prototype[name];
  EventTarget.prototype[name] = function (...about) {
    const target = this ?? globalThis;
    if (target === globalThis || target === document || target instanceof MediaQueryList) globalThis.listening += change;
    return real.apply(target, about);
  };
}
