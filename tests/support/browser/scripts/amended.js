// Give the next answers at a path other fields, one after the other.
const [begin, amendments] = arguments;
const real = globalThis.fetch;
globalThis.fetch = async (path, options) => {
  const reply = await real(path, options);
  if (!path.startsWith(begin) || !amendments.length) return reply;
  return new Response(JSON.stringify({ ...(await reply.json()), ...amendments.shift() }), reply);
};
