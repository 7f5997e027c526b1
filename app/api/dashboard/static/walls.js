// @ts-check
/** Incarnations: where the store lost events and history began again, the time bar ends. */
import { html, nothing } from "../vendor/lit-html-3.3.3/lit-html.js";
import { earliest, onForget, state } from "./store.js";
import { cut, number } from "./format.js";

/** What the log has about the event at an offset that began an incarnation. @type {Map<number, any>} */
const known = new Map();
onForget(() => known.clear());

/** Remember those of a part of the log; whether one of them was new. */
export function learn(found) {
  const before = known.size;
  for (const one of found ?? []) known.set(one.offset, one);
  return known.size > before;
}

/** Whether the event at the offset began an incarnation. */
export function begins(offset) {
  return offset > 0 && (offset === state.began || known.has(offset));
}

/** The part of a range of offsets that is of the same incarnation as one of them. */
export function inside({ first, last }, offset) {
  const all = [state.began, ...known.keys()];
  return {
    first: Math.max(first, ...all.filter((one) => one <= offset)),
    last: Math.min(last, ...all.filter((one) => one > offset).map((one) => one - 1)),
  };
}

/** What was lost before the event that began an incarnation; empty while that is not known. */
export function lost(offset) {
  const one = known.get(offset);
  if (!one) return "";
  const of = `of incarnation ${one.former}`;
  if (one.lostFrom > one.lostTo) return `which events ${of} were lost is not known`;
  return one.lostFrom === one.lostTo ? `event ${number(one.lostTo)} ${of} was lost` : `events ${number(one.lostFrom)} to ${number(one.lostTo)} ${of} were lost`;
}

/** The walls at both ends of the bar, each with a way to the other side. @param {(offset: number) => void} to */
export function ends(first, last, to) {
  return html`${begins(first) ? wall(first, "before", first - 1, to) : nothing}${begins(last + 1) ? wall(last + 1, "after", last + 1, to) : nothing}`;
}

function wall(offset, side, other, to) {
  const text = side === "before" ? `history began again at offset ${number(offset)}` : `history ended at offset ${number(offset - 1)}`;
  const about = [lost(offset), cut(known.get(offset)?.reason, 160)].filter(Boolean).join("; ");
  return html`<p class="wall ${side}"><span>${text}${about && `: ${about}`}</span>
    ${other < earliest() ? nothing : html`<button type="button" @click=${() => to(other)}>${side === "before" ? "go to the moment before" : "go to what followed"}: offset ${number(other)}</button>`}</p>`;
}
