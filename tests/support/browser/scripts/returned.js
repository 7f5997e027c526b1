// Hide the page for a minute and show it again; its next stream has no message.
const show = (hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
};
const now = Date.now;
show(true);
Date.now = () => now() + 60_000;
globalThis.EventSource = class extends EventTarget {
  close() {}
};
show(false);
