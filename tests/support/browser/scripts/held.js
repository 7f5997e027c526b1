// Requests of paths that begin with a text wait until the test lets them go; "waiting" has their paths.
const [begin] = arguments;
const real = globalThis.fetch;
const held = new Promise((resolve) => (globalThis.go = resolve));
globalThis.waiting = [];
globalThis.fetch = async (path, options) => {
  if (path.startsWith(begin)) {
    waiting.push(path);
    await held;
  }
  return real(path, options);
};
