// The next answer at a path is cut off behind its headers.
const begin = arguments[0];
const real = globalThis.fetch;
globalThis.fetch = async (path, options) => {
  if (!path.startsWith(begin)) return real(path, options);
  globalThis.fetch = real;
  return new Response(new ReadableStream({ start: (body) => body.error() }));
};
