// @ts-check
/** The time bar: an axis of events. Dragging shows frames that are in the browser; at rest the moment is asked for. */
import { html, nothing } from "../vendor/lit-html-3.3.3/lit-html.js";
import { live as bound } from "../vendor/lit-html-3.3.3/directives/live.js";
import { answer, ask, changed, earliest, learnHead, offsetOf, onForget, state, TRIMMED } from "./store.js";
import { clock, number, plural, time, typed } from "./format.js";
import { address, go, set } from "./router.js";
import { KINDS, marked } from "./strip.js";
import { BY, next, selected } from "./steps.js";
import * as walls from "./walls.js";

const REST_MS = 250;
const WINDOWS = [1000, 5000, 20000, 100000];
const FRAMES = 60;
export const bar = { width: 5000, held: false, dragging: null, frames: null, drawn: "color=state", playing: 0, wrong: "", by: "event", pins: { A: null, B: null } };
let rest = 0;
let loading = "";
/** The request for frames that failed last: a drag does not repeat it. */
let refused = "";
/** Settled once the frames that were asked for last are there, or refused. */
let loaded = Promise.resolve();
/** The event by which a moment was typed last. */
let submission = null;
/** The film that runs, or waits for its frames. */
let film = null;
/** The window in offsets; it stays while the past is shown, so that the slider does not move by itself. */
let range = null;

onForget(() => {
  halt();
  range = null;
  unload();
  Object.assign(bar, { wrong: "", pins: { A: null, B: null } });
});

/** Whether the pointer, a key or a film, from when it waits for its frames, moves the slider: then nothing else moves. */
export function moving() {
  return bar.held || bar.dragging !== null || film !== null;
}

function latest() {
  return state.head ? offsetOf(state.head) : 0;
}

/** The window, as far as it is of the incarnation that is shown. */
function bounds() {
  const head = latest();
  const shown = state.position ? offsetOf(state.position) : head;
  if (range && range.width === bar.width && moving()) return walls.inside(range, shown);
  const trimmed = range && range.first < earliest();
  if (!range || trimmed || range.head !== head) {
    if (!range || trimmed || state.at === null || range.width !== bar.width || shown < range.first || shown > range.last) {
      range = { first: Math.max(earliest(), head - bar.width), last: head, head, width: bar.width };
    }
  }
  if (range.width !== bar.width || shown < range.first || shown > range.last) {
    const first = shown < head - bar.width ? Math.max(earliest(), shown - Math.floor(bar.width / 2)) : Math.max(earliest(), head - bar.width);
    range = { first, last: Math.min(head, first + bar.width), head, width: bar.width };
  }
  return walls.inside(range, shown);
}

/**
 * The axis is asked for in steps of a fiftieth of the window, so that a live page does not ask at every event; with
 * the events at both ends that began an incarnation.
 */
function axis() {
  const { first, last } = bounds();
  const step = Math.max(1, Math.floor((last - first) / 50));
  const end = state.at === null ? Math.max(Math.min(last, step), Math.floor(last / step) * step) : last;
  const from = walls.begins(first) ? first - 1 : first;
  return { first: Math.max(earliest(), Math.min(from, end)), end: walls.begins(last + 1) ? last + 1 : end };
}

/** The offset shown, of the frame while the slider is dragged; that of the head before any is known. */
export function shownOffset() {
  return bar.dragging ?? (state.position ? offsetOf(state.position) : bounds().last);
}

/**
 * A stretch of at most so many events around the moment shown. Of a past moment it is a part of the window: the same
 * while the slider moves inside it, so that what is asked about it is asked once. In a live page it ends at the
 * position from which the slider is dragged.
 */
export function stretch(most) {
  const { first, last } = bounds();
  if (state.at === null) {
    const end = state.position ? offsetOf(state.position) : last;
    return { first: Math.max(first, end - most), last: end };
  }
  const shown = shownOffset();
  const start = first + Math.max(0, Math.floor((shown - first) / most)) * most;
  return { first: start, last: Math.min(last, start + most) };
}

function path(name, count) {
  const { first, end } = axis();
  return `/apis/v1/${name}?from=${first}&to=${end}&${count}`;
}

/** Forget the frames: the next ones are of another window, or show something else. */
function unload() {
  bar.frames = null;
  loading = "";
}

/** What the frames show of the nodes: the colours, and the label keys of the boxes, as parameters of the route. */
export function paint(drawn) {
  if (bar.drawn !== drawn) unload();
  bar.drawn = drawn;
}

/** The request for the frames of the window. */
function pictured() {
  const { first, last } = bounds();
  return `/apis/v1/frames?from=${first}&to=${last}&count=${FRAMES}&${bar.drawn}`;
}

/**
 * Fetch the frames of the window once: when the slider gets the focus or the pointer, and when it is dragged where there
 * are none. Those of a former window of a live page are shown for the moments that they cover until then.
 */
export function prefetch() {
  const wanted = pictured();
  if (loading !== wanted) {
    loading = wanted;
    loaded = fetched(wanted);
  }
  return loaded;
}

async function fetched(wanted) {
  try {
    const found = await ask(wanted);
    if (loading !== wanted) return;
    bar.frames = unfolded(found, wanted);
    if (bar.dragging !== null) state.frame = framed(bar.dragging);
  } catch (error) {
    if (loading !== wanted) return;
    loading = "";
    refused = wanted;
    bar.wrong = error.message;
  }
  changed();
}

function unfolded(found, url) {
  const values = [...found.frames[0].values];
  const frames = found.frames.map((frame) => {
    for (const [index, letter] of frame.changes) values[index] = letter;
    return { ...frame, values: values.join("") };
  });
  return { ...found, frames, url };
}

/** The frame at or before an offset, as a picture of the map; null outside of the window of the frames. */
export function framed(offset) {
  const frames = bar.frames?.frames ?? [];
  const found = offset > frames.at(-1)?.offset ? undefined : frames.findLast((frame) => frame.offset <= offset);
  if (!found) return null;
  const { layout, nodes, domains, classes, color, levels } = bar.frames;
  const counts = new Map();
  for (const letter of found.values) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  return { ...found, picture: { layout, nodes, domains, color, levels, values: found.values, classes: classes.map((one) => ({ ...one, count: counts.get(one.letter) ?? 0 })) } };
}

function dragged(offset) {
  bar.dragging = offset;
  state.frame = framed(offset);
  if (!state.frame && pictured() !== refused) prefetch();
  clearTimeout(rest);
  if (!bar.held) rest = setTimeout(() => settle(offset), REST_MS);
  changed();
}

/** While the pointer holds the slider nothing is asked for; at rest the exact moment is. */
function hold(held) {
  bar.held = held;
  clearTimeout(rest);
  const offset = bar.dragging;
  if (!held && offset !== null && !bar.playing) rest = setTimeout(() => settle(offset), REST_MS);
}

function settle(offset) {
  bar.dragging = null;
  state.frame = null;
  to(offset);
}

/** Show the moment of an offset; the head is the present. */
export async function to(offset) {
  clearTimeout(rest);
  if (offset > latest()) {
    const { at } = state;
    try {
      if (!(await learnHead())) return undefined;
    } catch (error) {
      bar.wrong = error.message;
      return changed();
    }
    // Another moment was chosen meanwhile.
    if (state.at !== at) return undefined;
  }
  const head = latest();
  const oldest = Math.min(head, earliest());
  bar.wrong = offset < oldest ? `offset ${number(oldest)} is the oldest that is kept` : offset > head ? `offset ${number(head)} is the latest` : "";
  state.frame = null;
  set({ at: String(Math.max(oldest, Math.min(head, offset))) });
  return changed();
}

export function live() {
  halt();
  bar.wrong = "";
  state.frame = null;
  set({ at: null });
}

/** The offset that was asked for last: a key may follow before it is drawn. */
function present() {
  if (state.at !== null && /^\d+$/.test(state.at)) return Number(state.at);
  return state.position ? offsetOf(state.position) : 0;
}

/** One step back or on, of the chosen kind. */
export async function step(direction) {
  const shown = present();
  if (bar.by === "event") return to(shown + direction);
  const { at } = state;
  try {
    let within = bounds();
    if (direction > 0 && shown >= within.last) {
      if (!(await learnHead())) return undefined;
      within = { first: shown, last: Math.min(latest(), shown + bar.width) };
    }
    const found = await next(/** @type {any} */ (bar.by), shown, direction, within);
    // Another moment was chosen meanwhile.
    if (state.at !== at) return undefined;
    if (found !== null) return to(found);
    bar.wrong = `there is no ${direction < 0 ? "earlier" : "later"} ${BY[bar.by]} in this window`;
  } catch (error) {
    bar.wrong = error.message;
  }
  changed();
  return undefined;
}

/** Pin the shown moment as A or B; with both, Compare shows what differs between them. */
export function pin(name) {
  if (!state.position) return;
  bar.pins[name] = bar.pins[name] === null ? present() : null;
  const { A, B } = bar.pins;
  if (A !== null && B !== null) {
    bar.pins = { A: null, B: null };
    go(address("compare", [], { from: String(A), to: String(B) }));
  }
  changed();
}

export async function play() {
  if (film) return stop();
  const mine = (film = {});
  await prefetch();
  if (film !== mine) return undefined;
  // Frames of another window are not played.
  if (bar.frames?.url !== loading) return halt();
  const shown = offsetOf(state.position);
  const frames = bar.frames.frames;
  let at = frames.findIndex((frame) => frame.offset > shown);
  if (at < 0) at = 0;
  bar.playing = setInterval(() => {
    const frame = frames[at];
    bar.dragging = frame.offset;
    state.frame = framed(frame.offset);
    at += 1;
    if (at >= frames.length) {
      stop();
      to(frame.offset);
    }
    changed();
  }, 150);
  changed();
  return undefined;
}

export function stop() {
  const paused = bar.playing ? bar.dragging : null;
  halt();
  if (paused !== null) to(paused);
}

/** Neither a film nor a slider that came to rest moves the page after this. */
function halt() {
  clearInterval(bar.playing);
  clearTimeout(rest);
  film = null;
  bar.playing = 0;
  bar.held = false;
  bar.dragging = null;
  state.frame = null;
}

async function submitted(event) {
  event.preventDefault();
  const field = event.target.elements.moment;
  const text = field.value.trim();
  if (!text) return;
  let asked = text.replaceAll(",", "");
  if (/\D/.test(asked) && !asked.includes("/") && !/^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/.test(asked)) {
    const at = typed(text);
    if (Number.isNaN(at.getTime())) {
      bar.wrong = `${text} is neither an offset, nor a position, nor a time`;
      changed();
      return;
    }
    asked = at.toISOString();
  }
  const { at } = state;
  submission = event;
  // Until another moment is chosen or typed.
  const wanted = () => submission === event && state.at === at;
  try {
    const found = await ask(`/apis/v1/cluster?limit=1&at=${encodeURIComponent(asked)}`, undefined, wanted);
    if (!wanted()) return;
    if (field.value.trim() === text) field.value = "";
    to(offsetOf(found.metadata.position));
  } catch (error) {
    if (!wanted()) return;
    bar.wrong = error.message;
    changed();
  }
}

/**
 * The slider speaks its value when it moves it; the output beside it, which each event of a live page changes, is silent.
 * @param {any} rested the cluster at the moment shown, once it is there
 */
export function timebar(rested) {
  const asked = () => answer("axis", state.head ? path("moments", "buckets=200") : null);
  let strip = asked();
  if (walls.learn(strip.body?.incarnations)) strip = asked();
  const { first, last } = bounds();
  const shown = shownOffset();
  const there = rested?.metadata.position === state.position ? { waiting: rested.pods.waiting, at: rested.metadata.asOf } : null;
  const moment = bar.dragging === null ? there : state.frame;
  const waiting = moment ? `, ${plural(moment.waiting, "pod")} waiting` : "";
  const at = moment?.at ? `, ${clock(moment.at)}` : "";
  if (strip.body) queueMicrotask(() => /** @type {any} */ (document.querySelector("time-strip"))?.show(strip.body, first, last, bar.pins));
  return html`<section class="timebar" aria-label="Time">
    <div class="steps">
      <button type="button" @click=${() => step(-1)} title="one ${BY[bar.by]} back (,)" aria-label="one ${BY[bar.by]} back">‹</button>
      <button type="button" @click=${play} title="play (Space)" aria-label=${bar.playing ? "pause" : "play"}>${bar.playing ? "❚❚" : "▶"}</button>
      <button type="button" @click=${() => step(1)} title="one ${BY[bar.by]} on (.)" aria-label="one ${BY[bar.by]} on">›</button>
      <select class="by" aria-label="Step by" @change=${(event) => { bar.by = event.target.value; bar.wrong = ""; changed(); }}>
        ${Object.entries(BY).map(([name, text]) => html`<option value=${name} ?selected=${bar.by === name} ?disabled=${name === "object" && selected() === null}>${text}</option>`)}
      </select>
      <button type="button" class="live ${state.at === null ? "on" : ""}" aria-pressed=${state.at === null} @click=${live} title="go live (L)">live</button>
      ${["A", "B"].map((name) => html`<button type="button" class="pin" aria-pressed=${bar.pins[name] !== null} @click=${() => pin(name)}
        title=${bar.pins[name] === null ? `pin this moment as ${name}, to compare A and B` : `offset ${number(bar.pins[name])}; unpin`} aria-label=${bar.pins[name] === null ? `pin as ${name}` : `unpin ${name}`}>${name}</button>`)}
    </div>
    <div class="track" @pointerenter=${prefetch}>
      <time-strip></time-strip>
      ${strip.status === "failed" && strip.reason !== TRIMMED ? html`<p class="failed">${strip.error}</p>` : nothing}
      <input type="range" id="slider" aria-label="Moment, as an offset of the log" min=${first} max=${Math.max(last, first + 1)} step="1"
        .value=${bound(String(shown))} aria-valuetext="offset ${number(shown)}${at}${waiting}"
        @pointerdown=${(event) => hold(event.button === 0)} @pointerup=${() => hold(false)} @pointercancel=${() => hold(false)}
        @focus=${prefetch} @input=${(event) => dragged(Number(event.target.value))}>
      <ul class="legend" aria-label="Events on the strip">${KINDS.map((name) => html`<li><span class="key axis-${name}" aria-hidden="true"></span>${name}</li>`)}
        ${strip.body?.gaps.length ? html`<li><span class="key unwatched" aria-hidden="true"></span>not watched</li>` : nothing}
        ${strip.body ? marked(strip.body).map(({ sign, ink, names }) => html`<li><span class="sign${ink}" aria-hidden="true">${sign}</span>${names}</li>`) : nothing}</ul>
      ${walls.ends(first, last, to)}
      <div class="ends"><span>${number(first)}</span><output for="slider" aria-live="off">offset ${number(shown)}${at}${waiting}</output><span>${number(last)}</span></div>
    </div>
    <form class="moment" @submit=${submitted}>
      <label for="moment">moment</label>
      <input id="moment" name="moment" autocomplete="off" placeholder="offset, position or time" aria-describedby="moment-wrong">
      <select aria-label="Events in the window" @change=${(event) => { bar.width = Number(event.target.value); unload(); changed(); }}>
        ${WINDOWS.map((size) => html`<option value=${size} ?selected=${size === bar.width}>${number(size)} events</option>`)}
      </select>
      <span id="moment-wrong" class="failed" role="status">${bar.wrong}</span>
    </form>
  </section>`;
}

/** The sentence about the moment shown, for the banner and the title. */
export function sentence(metadata) {
  if (!state.position) return "";
  const offset = number(bar.dragging ?? offsetOf(state.position));
  return metadata?.asOf ? `offset ${offset}, ${time(metadata.asOf)}` : `offset ${offset}`;
}
