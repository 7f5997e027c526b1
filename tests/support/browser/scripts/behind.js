// A page that asks for the head of the log is answered with this position.
const [position] = arguments;
const real = globalThis.fetch;
globalThis.fetch = async (path, options) => {
  if (path !== "/apis/v1/lag" && path !== "/apis/v1/cluster?limit=1") return real(path, options);
  return Response.json({ position, metadata: { position } });
};
