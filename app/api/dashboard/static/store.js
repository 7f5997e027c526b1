// @ts-check
/** The state of the page, and the requests behind it. A picture is a function of the state. */

/** @typedef {{status: "loading"|"ready"|"failed", body: any, error: string, reason?: string, url: string}} Answer */

const listeners = new Set();
/** @type {Map<string, Answer>} */
const answers = new Map();
const wanted = new Map();
/** What the panels are about. */
const objects = new Map();
/** The path of a panel that is under way. */
const loading = new Map();
let running = 0;

export const state = {
  /** The position shown, INCARNATION/OFFSET; empty before it is known. */
  position: "",
  /** The head of the log. */
  head: "",
  /** When the head was learned, and the age that it had (seconds). */
  headAge: 0,
  /** The value of ?at=: null while the page is live. */
  at: null,
  /** The answer that no moment is what ?at= names; null otherwise. @type {Answer|null} */
  unresolved: null,
  connected: true,
  /** Why the server refuses the connection; empty if it does not answer. */
  refusal: "",
  /** The offset of the event that began the present incarnation; 0 for the first. */
  began: 0,
  /** The position at which history began again while the page was open; empty otherwise. */
  renewed: "",
  /** The oldest offset that can be shown; 0 until a moment before it was asked for. */
  oldest: 0,
  /** The bundle that is shown, as GET /lag names it; null for a live cluster. */
  bundle: null,
  view: "",
  path: [],
  query: new URLSearchParams(),
  /** The part of the address from # on; empty without one. */
  hash: "",
  /** A frame that is shown while the slider is dragged; null at rest. */
  frame: null,
  notice: "",
  /** Whether times are in UTC, and whether single keys are shortcuts: choices of the user, which the browser keeps. */
  utc: false,
  keys: true,
};

const CHOICES = "topolog";
try {
  const { utc, keys } = JSON.parse(localStorage.getItem(CHOICES) ?? "{}");
  Object.assign(state, { utc: utc === true, keys: keys !== false });
} catch {
  // A browser that keeps nothing for pages.
}

/** Choose something that is no part of what is shown: the address does not have it. @param {"utc"|"keys"} name @param {boolean} value */
export function choose(name, value) {
  state[name] = value;
  try {
    localStorage.setItem(CHOICES, JSON.stringify({ utc: state.utc, keys: state.keys }));
  } catch {
    // It holds until the page is left.
  }
  changed();
}

/** Seconds since the log was last read from which a live page states that; the stream then has a message a second. */
const STALE = 5;

/** Whether the server has not read the log for a while, so that a live page is not. */
export function stale() {
  return state.connected && !state.bundle && state.headAge > STALE;
}

export function changed() {
  for (const listener of listeners) listener();
}

export function listen(listener) {
  listeners.add(listener);
}

/** The first offset that can be shown: a bundle has none before its own, and a log may be trimmed. */
export function earliest() {
  return Math.max(state.bundle?.first ?? 0, state.oldest);
}

/** The reason of an answer about a moment that is no longer kept, and of one in a history that ended. */
export const TRIMMED = "PositionTrimmed";
export const GONE = "PositionGone";

/** The oldest moment that is kept: asked for once a moment before it is. */
async function learnOldest() {
  const oldest = (_, headers) => Number(headers.get("X-Topolog-Oldest"));
  state.oldest = await ask("/apis/v1/moments?buckets=1", undefined, undefined, oldest).catch(() => state.oldest);
  changed();
}

/** Ask for the head of the log, for a page of the past: nothing streams to it. Whether history did not begin again. */
export async function learnHead() {
  // Unlike that of /lag, the answer follows the store.
  const { position } = (await ask("/apis/v1/cluster?limit=1")).metadata;
  if (state.head && incarnationOf(position) !== incarnationOf(state.head)) {
    dispatchEvent(new Event(GONE));
    return false;
  }
  // Answers may arrive in another order than they were made.
  if (offsetOf(position) > offsetOf(state.head)) state.head = position;
  return true;
}

export function offsetOf(position) {
  return Number(position.slice(position.lastIndexOf("/") + 1));
}

export function incarnationOf(position) {
  return position.slice(0, position.lastIndexOf("/"));
}

/** The path with the shown moment as a parameter, so that all panels show one moment. */
export function moment(path, name = "at") {
  if (!state.position) return null;
  return `${path}${path.includes("?") ? "&" : "?"}${name}=${encodeURIComponent(state.position)}`;
}

/** Reasons of a server that is well and busy: the question is asked again, and nothing has failed. */
const BUSY = new Set(["TooManyRequests", "Behind"]);
const PATIENCE = 20;
/** Milliseconds after which a panel asks a server again that did not answer. */
const AWAY = 2000;

/**
 * JSON at a path of the API, or an Error with the sentence of the API. A busy server is asked again after its
 * Retry-After, as long as the answer is needed.
 * @param {string} path @param {object} [body] @param {() => boolean} [needed]
 * @param {(found: any, headers: Headers) => any} [taken] what is taken from the answer
 */
export async function ask(path, body, needed = () => true, taken = (found) => found) {
  for (let left = PATIENCE; ; left -= 1) {
    try {
      return await askOnce(path, body, taken);
    } catch (error) {
      if (!error.again || !BUSY.has(error.name) || !left) throw error;
      await new Promise((resolve) => setTimeout(resolve, error.again));
      if (!needed()) throw error;
    }
  }
}

/** Pages of a list that are read at most. */
const PAGES = 20;

/**
 * As `ask`, for a list: its pages. A page ends with a number of bytes, too, and may be empty before the last one.
 * @param {string} path with a query @param {object} [body] @param {() => boolean} [needed]
 */
export async function* pages(path, body, needed) {
  for (let left = PAGES, more = ""; left; left -= 1) {
    const page = await ask(more ? `${path}&continue=${encodeURIComponent(more)}` : path, body, needed);
    yield page;
    more = page.metadata.continue;
    if (!more) return;
  }
}

/**
 * The last page that was read, with the items of all.
 * @type {typeof ask} @param {string} path with a query
 */
export async function all(path, body, needed) {
  const items = [];
  let last;
  for await (last of pages(path, body, needed)) items.push(...last.items);
  return { ...last, items };
}

async function askOnce(path, body, taken) {
  const options = { headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let reply;
  let found;
  try {
    reply = await fetch(path, options);
    found = await reply.json();
  } catch {
    // An answer may be cut off behind its headers; an error has a status, and needs no JSON.
    if (!reply || reply.ok) throw Object.assign(new Error("the server does not answer"), { again: AWAY });
  }
  if (!reply.ok) {
    const error = new Error(found?.message ?? `${reply.status} ${reply.statusText}`);
    error.name = found?.reasonCode ?? "Error";
    error.answered = true;
    error.again = 1000 * Number(reply.headers.get("Retry-After") ?? 0);
    throw error;
  }
  return taken(found, reply.headers);
}

/**
 * The latest answer of a panel. It is asked for again when the path changes; until the new one is there, the
 * old one stays, so that nothing flickers. Of another object none does: its numbers would be shown below another name.
 * @param {string} name @param {string|null} path @param {string} [object] what it is about, if the path before ? does not name it
 * @param {typeof ask} [asked] how it is asked for, `ask` or `all`; the same one for each name
 * @returns {Answer}
 */
export function answer(name, path, object = path?.split("?", 1)[0], asked = ask) {
  if (object && objects.get(name) !== object) {
    objects.set(name, object);
    answers.delete(name);
    wanted.delete(name);
  }
  const held = answers.get(name);
  if (!path) return state.unresolved ?? held ?? { status: "loading", body: null, error: "", url: "" };
  if (wanted.get(name) !== path) {
    wanted.set(name, path);
    load(name, asked);
  }
  return answers.get(name) ?? { status: "loading", body: null, error: "", url: path };
}

/** What a path asks about, at whatever moment or in whatever range. */
function subject(path) {
  return path.replace(/([?&](?:at|from|to)=)[^&]*/g, "$1");
}

/**
 * Ask for the wanted path. Of the same at another moment one request is under way at a time, and the latest one
 * is asked for after it: a log that grows faster than questions are answered must not pile them up.
 */
async function load(name, asked) {
  const path = wanted.get(name);
  const before = loading.get(name);
  if (!path || (before && subject(before) === subject(path))) return;
  loading.set(name, path);
  running += 1;
  const needed = () => loading.get(name) === path && wanted.has(name) && subject(wanted.get(name)) === subject(path);
  /** @type {Answer} */
  let found;
  try {
    found = { status: "ready", body: await asked(path, undefined, needed), error: "", url: path };
  } catch (error) {
    found = { status: "failed", body: null, error: error.message, reason: error.name, url: path };
    if (error.name === TRIMMED) learnOldest();
    if (error.name === GONE) dispatchEvent(new Event(GONE));
    // Such as a server that restarts, or whose store is away.
    if (error.again) setTimeout(() => wanted.get(name) === path && load(name, asked), error.again);
  }
  running -= 1;
  if (needed()) answers.set(name, found);
  if (loading.get(name) === path) {
    loading.delete(name);
    if (wanted.get(name) !== path) load(name, asked);
  }
  changed();
}

/** Forget an answer, so that it is asked for again. */
export function forget(name) {
  wanted.delete(name);
}

const forgetting = [];

/** Have a function called when history begins again: what it keeps belongs to the history that ended. */
export function onForget(forgets) {
  forgetting.push(forgets);
}

export function forgetAll() {
  wanted.clear();
  loading.clear();
  answers.clear();
  state.oldest = 0;
  for (const forgets of forgetting) forgets();
}

/** Whether no request is under way. */
export function settled() {
  return running === 0;
}
