// Give the next answers of simulate other fields, one after the other.
const amendments = arguments[0];
const real = globalThis.fetch;
globalThis.fetch = async (path, options) => {
  const reply = await real(path, options);
  if (path !== "/apis/v1/simulate" || !amendments.length) return reply;
  return new Response(JSON.stringify({ ...(await reply.json()), ...amendments.shift() }), reply);
};
