// @ts-check
/** Steps from moment to moment: by event, by event of the selected object, or by decision. */
import { all, offsetOf, pages, state } from "./store.js";

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
  if (by === "decision") return direction < 0 ? latest(from, shown) : earliest(from, to);
  const found = await all(`/apis/v1/events?object=${encodeURIComponent(object())}&from=${Math.max(1, from)}&to=${to}&limit=1000`);
  const offsets = found.items.map((one) => one.offset);
  return offsets.length ? (direction < 0 ? Math.max(...offsets) : Math.min(...offsets)) : null;
}

/** Events of the first part of a window in which the next decision is looked for. */
const PART = 50;

/** The offset of the latest decision before the moment shown: a list of decisions begins with it, or close to it. */
async function latest(from, shown) {
  for await (const { items } of pages(decisions(from, shown - 1, shown, 100))) {
    if (items.length) return Math.max(...items.map(offset));
  }
  return null;
}

/**
 * The offset of the earliest decision in a range. A list ends with it, behind any number of others: parts of the range
 * are asked for, each twice as long as the one before.
 */
async function earliest(from, last) {
  for (let events = PART; ; events *= 2) {
    const to = Math.min(last, from + events - 1);
    const { items, metadata } = await all(decisions(from, to, to, 1000));
    if (items.length) {
      const found = Math.min(...items.map(offset));
      // Of the decisions at one offset there may be more than were read, and earlier ones behind them.
      return metadata.continue && found > from ? (await earliest(from, found - 1)) ?? found : found;
    }
    if (to === last) return null;
  }
}

/** The decisions from one offset to another, searched from a moment that is not before them. */
function decisions(from, to, at, limit) {
  return `/apis/v1/decisions?since=${from}&until=${to + 1}&at=${at}&limit=${limit}`;
}

function offset(decision) {
  return offsetOf(decision.position);
}

function object() {
  const found = selected();
  if (found === null) throw new Error("no object is selected: open a pod, or a node on the map");
  return found;
}
