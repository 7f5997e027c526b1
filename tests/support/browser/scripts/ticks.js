// From now on, an interval that the page begins runs when a test calls it, and not by the clock.
globalThis.ticks = [];
globalThis.setInterval = (tick) => {
  ticks.push(tick);
  return -1;
};
