// Follow the log by a stream of events, resumed as browsers do, and keep every offset, gap and start of an incarnation in their order.
const [position, types] = arguments;
const kept = (globalThis.collected = { offsets: [], begun: [], opened: 0 });
let last = position;
const open = () => {
  const source = new EventSource(`/apis/v1/watch?from=${encodeURIComponent(last)}`);
  source.onopen = () => (kept.opened += 1);
  for (const type of types) {
    source.addEventListener(type, (event) => {
      last = event.lastEventId;
      kept.offsets.push(JSON.parse(event.data).offset);
    });
  }
  source.addEventListener("incarnation", (event) => {
    last = event.lastEventId;
    kept.begun.push(JSON.parse(event.data));
  });
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(open, 500);
  };
};
open();
