// Answers of frames wait until the test lets them go.
const real = globalThis.fetch;
const held = new Promise((resolve) => (globalThis.go = resolve));
globalThis.fetch = async (path, options) => {
  if (path.startsWith("/apis/v1/frames")) await held;
  return real(path, options);
};
