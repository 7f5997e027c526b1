// @ts-check
/** Steps from moment to moment: by event, by event of the selected object, or by decision. */
import { all, offsetOf, state } from "./store.js";

export const BY = { event: "event", object: "event of the object", decision: "decision" };

/** The object that the page is about, as the events name it; null without one. */
export function selected() {
  if (state.view === "pods" && state.path.length === 2) return `pod:${state.path.join("/")}`;
  const node = state.query.get("node");
  return node ? `node:${node}` : null;
}

/**
 * The offset of the next one in a direction, inside the window; null if there is none.
 * @param {"object"|"decision"} by @param {number} shown @param {number} direction @param {{first: number, last: number}} window
 */
export async function next(by, shown, direction, { first, last }) {
  const [from, to] = direction < 0 ? [first, shown - 1] : [shown + 1, last];
  if (from > to) return null;
  const offsets = by === "decision"
    ? (await all(`/apis/v1/decisions?since=${from}&until=${to + 1}&limit=1000`)).items.map((one) => offsetOf(one.position))
    : (await all(`/apis/v1/events?object=${encodeURIComponent(object())}&from=${Math.max(1, from)}&to=${to}&limit=1000`)).items.map((one) => one.offset);
  const inside = offsets.filter((offset) => offset >= from && offset <= to);
  return inside.length ? (direction < 0 ? Math.max(...inside) : Math.min(...inside)) : null;
}

function object() {
  const found = selected();
  if (found === null) throw new Error("no object is selected: open a pod, or a node on the map");
  return found;
}
