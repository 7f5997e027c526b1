// @ts-check
/**
 * One stream for all tabs of a browser: the tab that holds the lock has it and passes its messages on. A past
 * moment needs no stream, and neither do hidden tabs.
 */
import { ask, changed, forgetAll, GONE, incarnationOf, offsetOf, state } from "./store.js";
import { moving } from "./timebar.js";

const TICK = 500;
/** Milliseconds after which a page that must not move is checked again. */
const AGAIN = 250;
/** Milliseconds without a message after which the connection counts as lost: the stream has one in 15 seconds. */
const SILENCE = 20_000;
/** Milliseconds between two checks of that. */
const CHECK = 5000;
const channel = new BroadcastChannel("topolog-watch");
/** @type {EventSource|null} */
let source = null;
let release = null;
let refreshed = 0;
let timer = 0;
let asking = false;
/** When the last message arrived, by the clock that goes on while the machine sleeps. */
let arrived = 0;
let checking = 0;

export async function install() {
  channel.onmessage = (event) => receive(event.data);
  document.addEventListener("visibilitychange", follow);
  addEventListener("moved", follow);
  addEventListener(GONE, superseded);
  await first();
  follow();
}

/** A past moment has no stream that announces a new history: an answer does. */
async function superseded() {
  if (asking || incarnationOf(state.position) !== incarnationOf(state.head)) return;
  asking = true;
  await first();
  asking = false;
}

/** The position before the first message of the stream. */
async function first() {
  try {
    const lag = await ask("/apis/v1/lag");
    Object.assign(state, { bundle: lag.bundle, notice: "", connected: true });
    moved(lag.position, lag.seconds, lag.began);
  } catch (error) {
    lost(error);
    // A page of the past has no other banner about it.
    if (state.at !== null) state.notice = error.message;
    setTimeout(first, 2000);
  }
  changed();
}

function follow() {
  const needed = state.at === null && !document.hidden;
  if (!needed) {
    clearInterval(checking);
    release?.();
    release = null;
    close();
    return;
  }
  if (release) return;
  checking = setInterval(check, CHECK);
  arrived = Date.now();
  const held = new Promise((resolve) => (release = resolve));
  const mine = release;
  navigator.locks.request("topolog-watch", () => {
    if (release !== mine) return undefined;
    open();
    return held;
  });
}

function open() {
  source = new EventSource(`/apis/v1/watch?tick=${TICK}`);
  source.addEventListener("head", (event) => {
    const data = JSON.parse(event.data);
    pass({ kind: "head", position: data.position, age: data.age });
  });
  source.addEventListener("end", reopen);
  source.addEventListener("incarnation", (event) => pass({ kind: "incarnation", ...JSON.parse(event.data) }));
  source.onopen = () => pass({ kind: "open" });
  source.onerror = () => {
    if (source?.readyState !== EventSource.CLOSED) return pass({ kind: "lost" });
    close();
    return refused();
  };
}

/** The stream was answered with an error, such as while the store is away: other requests may be answered. */
async function refused() {
  try {
    const { position, seconds, began } = await ask("/apis/v1/lag");
    pass({ kind: "head", position, age: seconds, began });
  } catch (error) {
    pass({ kind: "lost", answered: error.answered, message: error.message });
  }
  setTimeout(() => release && !source && open(), 2000);
}

function close() {
  source?.close();
  source = null;
}

/** A connection may be lost without an error, such as while the machine sleeps, or behind a process that hangs. */
function check() {
  if (Date.now() - arrived <= SILENCE) return;
  arrived = Date.now();
  if (state.connected) receive({ kind: "lost" });
  if (source) reopen();
}

/** Where a stream ends as planned nothing is lost, and the next one is asked for at once. */
function reopen() {
  close();
  open();
}

function pass(message) {
  channel.postMessage(message);
  receive(message);
}

function receive(message) {
  if (message.kind === "lost") {
    lost(message);
  } else if (message.kind === "open") {
    state.connected = true;
  } else if (message.kind === "incarnation") {
    moved(message.to, 0, offsetOf(message.to));
  } else {
    state.connected = true;
    moved(message.position, message.age, message.began);
  }
  changed();
}

/** There is no connection; the message is the reason if the server answered with one. */
function lost({ answered = false, message = "" }) {
  state.connected = false;
  state.refusal = answered ? message : "";
}

/** A new head; the panels follow at most once a second. Of a history that ended nothing stays on the page. */
export function moved(position, age, began) {
  const another = state.head && incarnationOf(state.head) !== incarnationOf(position);
  if (another) {
    forgetAll();
    state.renewed = position;
    // Such as behind a server that was away: its stream begins with the position alone.
    if (began === undefined) first();
  }
  if (began !== undefined) state.began = began;
  arrived = Date.now();
  state.head = position;
  state.headAge = age;
  if (state.at !== null) return;
  const wait = 1000 - (performance.now() - refreshed);
  clearTimeout(timer);
  if (wait <= 0 || !state.position || another) show();
  else timer = setTimeout(show, wait);
}

function show() {
  if (state.at !== null) return;
  if (moving() && state.position) {
    clearTimeout(timer);
    timer = setTimeout(show, AGAIN);
    return;
  }
  refreshed = performance.now();
  if (state.position !== state.head) {
    state.position = state.head;
    changed();
  }
}
