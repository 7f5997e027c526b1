// Requests of paths that begin with a text fail; "failed" is their number.
const begin = arguments[0];
const real = globalThis.fetch;
globalThis.failed = 0;
globalThis.fetch = async (path, options) => {
  if (!path.startsWith(begin)) return real(path, options);
  globalThis.failed += 1;
  throw new TypeError("Failed to fetch");
};
