// Requests of paths that begin with a text wait until the test lets them go, or the first of them; "waiting" has the paths,
// and "passed" those that were answered after that.
const [begin, most = Infinity] = arguments;
const real = globalThis.fetch;
const held = new Promise((resolve) => (globalThis.go = resolve));
Object.assign(globalThis, { waiting: [], passed: [] });
globalThis.fetch = async (path, options) => {
  if (!path.startsWith(begin) || waiting.length >= most) return real(path, options);
  waiting.push(path);
  await held;
  const reply = await real(path, options);
  passed.push(path);
  return reply;
};
