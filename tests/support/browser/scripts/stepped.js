// The offset to which a step by decision leads, and the number of requests, where there are so many decisions at each of these offsets.
const [held, shown, direction, last, done] = arguments;
const all = held.flatMap(([offset, count]) => Array(count).fill({ position: `i/${offset}` })).reverse();
const real = globalThis.fetch;
let requests = 0;
globalThis.fetch = async (path, options) => {
  const { pathname, searchParams } = new URL(path, location.href);
  if (pathname !== "/apis/v1/decisions") return real(path, options);
  requests += 1;
  const number = (name, usual) => Number(searchParams.get(name) ?? usual);
  const [since, until, limit, begin] = [number("since"), Math.min(number("until"), number("at", Infinity) + 1), number("limit"), number("continue", 0)];
  const offset = ({ position }) => Number(position.slice(2));
  const items = all.filter((one) => offset(one) >= since && offset(one) < until);
  const more = begin + limit < items.length ? String(begin + limit) : null;
  return Response.json({ items: items.slice(begin, begin + limit), metadata: { continue: more } });
};
const main = document.querySelector("script[type=module]").src;
import(main.replace("main.js", "steps.js")).then(({ next }) => next("decision", shown, direction, { first: 1, last })).then((found) => done([found, requests]));
