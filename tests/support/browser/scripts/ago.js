// How long ago a time was, on a live page and on one of the past, if the latest event was appended a minute after it.
const done = arguments[0];
const main = document.querySelector("script[type=module]").src;
Promise.all(["format.js", "store.js"].map((name) => import(main.replace("main.js", name)))).then(([format, { state }]) => {
  const from = new Date(Date.now() - 7_200_000);
  const asOf = new Date(from.getTime() + 60_000).toISOString();
  const before = state.at;
  const shown = [null, "5"].map((at) => {
    state.at = at;
    return format.ago(from.toISOString(), asOf);
  });
  state.at = before;
  done(shown);
});
