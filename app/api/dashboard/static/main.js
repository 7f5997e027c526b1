// @ts-check
/** Draws the page: one state, one function of it, at most one drawing for each animation frame. */
import { html, nothing, render } from "../vendor/lit-html-3.3.3/lit-html.js";
import { answer, changed, choose, earliest, GONE, listen, offsetOf, settled, stale, state, TRIMMED } from "./store.js";
import { between, now, number, span, time } from "./format.js";
import * as focus from "./focus.js";
import * as live from "./live.js";
import * as router from "./router.js";
import * as timebar from "./timebar.js";
import { lost } from "./walls.js";
import { compare } from "./views/compare.js";
import { abandonSelection, decisions } from "./views/decisions.js";
import { health } from "./views/health.js";
import { closeDrawer, overview } from "./views/overview.js";
import { pending } from "./views/pending.js";
import { pod } from "./views/pod.js";
import { workloads } from "./views/workloads.js";

const VIEWS = { overview, pending, pods: pod, workloads, decisions, compare, health };
const NAMES = { overview: "Overview", pending: "Pending", pods: "Pod", workloads: "Workloads", decisions: "Decisions", compare: "Compare", health: "Health" };
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
let asked = false;
let pathname = location.pathname;

function draw() {
  asked = false;
  if (pathname !== location.pathname) {
    focus.silence();
    abandonSelection();
  }
  pathname = location.pathname;
  state.unresolved = null;
  if (state.at !== null) state.position = past();
  focus.kept(() => render(page(), root));
  if (settled() && state.position && !asked) document.documentElement.dataset.settled = state.position;
}

/** The position of ?at=: a position or an offset as it is; a time is resolved by the first answer. */
function past() {
  const at = state.at ?? "";
  if (at.includes("/")) return at;
  if (!/^\d+$/.test(at)) return resolved(at);
  const incarnation = state.head.slice(0, state.head.lastIndexOf("/"));
  return incarnation ? `${incarnation}/${at}` : "";
}

function resolved(at) {
  const found = answer("resolved", `/apis/v1/cluster?limit=1&at=${encodeURIComponent(at)}`, at);
  if (found.status === "failed") state.unresolved = { ...found, url: "" };
  return found.body?.metadata.position ?? "";
}

function page() {
  const shown = answer("shown", state.position ? `/apis/v1/cluster?limit=1&at=${encodeURIComponent(state.position)}` : null);
  const sentence = timebar.sentence(shown.body?.metadata);
  document.title = `${NAMES[state.view]} · ${state.at === null ? (state.bundle ? "bundle" : "live") : sentence || state.at} · Topolog`;
  return html`
    <a class="skip" href="#main" @click=${skip}>skip to the content</a>
    <header class="top">
      <a class="brand" href="/dashboard/"><span class="logo" aria-hidden="true"></span>Topolog</a>
      <nav aria-label="Views">${Object.entries(NAMES).map(([view, name]) => html`<a href=${router.address(view)} aria-current=${state.view === view ? "page" : "false"}>${name}</a>`)}</nav>
      <form class="search" role="search" @submit=${search}>
        <label class="reader" for="search">Node, or pod as NAMESPACE/NAME</label>
        <input id="search" name="text" type="search" placeholder="node or namespace/pod" title="search ( / )" autocomplete="off">
      </form>
      <button type="button" class="zone" aria-pressed=${state.utc} @click=${() => choose("utc", !state.utc)}>UTC</button>
      <button type="button" class="zone" aria-pressed=${state.keys} title="single keys are shortcuts, such as / and L" @click=${() => choose("keys", !state.keys)}>keys</button>
      ${status(sentence)}
    </header>
    ${banner(shown, sentence)}
    <main id="main" tabindex="-1"><h1 class="reader">${NAMES[state.view]}${sentence ? `, ${sentence}` : ""}</h1>${VIEWS[state.view]()}</main>
    ${timebar.timebar(shown.body)}`;
}

function status(sentence) {
  if (state.at !== null) return html`<span class="status past">past</span>`;
  if (state.bundle && state.connected) return html`<span class="status past">bundle</span>`;
  if (!state.connected) return html`<span class="status lost" role="status">not connected</span>`;
  if (stale()) return html`<span class="status lost" role="status">not live</span>`;
  return html`<span class="status live" title=${sentence}><span class="pulse" aria-hidden="true"></span>live</span>`;
}

/** Where a moment leads that cannot be shown, for this reason. */
function reachable(reason) {
  if (reason === TRIMMED && state.oldest) return { offset: state.oldest, text: "go to the oldest moment" };
  if (reason !== GONE || !state.head) return null;
  const offset = Math.max(earliest(), Math.min(offsetOf(state.head), offsetOf(state.position)));
  return { offset, text: `go to offset ${number(offset)} of the present history` };
}

/** A screen reader speaks each banner once: not again for every second that it counts. */
function banner(shown, sentence) {
  const ago = shown.body?.metadata.asOf ? span(between(shown.body.metadata.asOf, now())) : "";
  const way = reachable(shown.reason);
  return html`
    ${state.bundle ? html`<p class="banner bundle" role="note">${origin(state.bundle)}</p>` : nothing}
    ${state.renewed ? html`<p class="banner notice" role="alert"><span>The store lost events, and history began again at ${state.renewed}${lost(state.began) && `: ${lost(state.began)}`}. What was shown before belongs to the history that ended.</span>
      <button type="button" @click=${() => { state.renewed = ""; changed(); }}>close</button></p>` : nothing}
    ${state.notice ? html`<p class="banner notice" role="alert">${state.notice} <button type="button" @click=${() => { state.notice = ""; changed(); }}>close</button></p>` : nothing}
    ${!state.connected && state.at === null ? html`<p class="banner lost" role="alert">${state.refusal ? `Not connected: ${state.refusal}.` : "The server does not answer."} What is shown is from ${sentence || "before"}.</p>` : nothing}
    ${stale() && state.at === null ? html`<p class="banner lost" role="alert">The log has not been read for <span aria-live="off">${span(state.headAge)}</span>, such as when the store is away. What is shown is from ${sentence || "before"}.</p>` : nothing}
    ${state.at === null ? nothing : html`<p class="banner past" role="status">${shown.status === "failed" ? shown.error : html`<span>The cluster as it was at <b>${sentence}</b><span aria-live="off">${ago ? `, ${ago} ago` : ""}</span>.</span>`}
      ${way ? html`<button type="button" @click=${() => timebar.to(way.offset)}>${way.text}</button>` : nothing}
      <button type="button" @click=${timebar.live}>${state.bundle ? "go to the end" : "go live"}</button></p>`}`;
}

/** What the bundle is of; nothing in it is live. */
function origin(bundle) {
  const around = bundle.around ? html` around <b>${bundle.around}</b>` : nothing;
  return html`<span>A bundle of cluster <b>${bundle.cluster}</b>${around}: offsets ${number(bundle.first)} to ${number(bundle.last)}, ${bundle.to ? html`until ${time(bundle.to)}, ` : nothing}made at ${time(bundle.created)} by ${bundle.by}. Nothing here is live.</span>`;
}

function search(event) {
  event.preventDefault();
  const text = event.target.elements.text.value.trim();
  if (!text) return;
  if (text.includes("/")) router.go(router.address("pods", text.split("/").slice(0, 2)));
  else {
    router.go(router.address("overview", [], { node: text, find: text }));
    requestAnimationFrame(() => /** @type {any} */ (document.querySelector("cluster-map"))?.find(text));
  }
}

/** To the content, while the address stays: after # it has a what-if. */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** Escape leads back: out of a field, of a menu, of the drawer of a node or a domain, and from an object to the view before it. */
function escape(target, typing) {
  const menu = target.closest("details.as[open]");
  if (typing) return focus.back();
  if (menu) {
    menu.open = false;
    return menu.querySelector("summary").focus();
  }
  if (state.view === "overview" && (state.query.get("node") || state.query.get("domain"))) return closeDrawer();
  if (abandonSelection()) return focus.announce("The selection is cancelled.");
  return router.back();
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.matches("input:not([type=range]), textarea, select");
  if (event.key === "Escape") return escape(target, typing);
  if (typing || !state.keys) return undefined;
  const actions = {
    "/": () => focus.jump("search"),
    ",": () => timebar.step(-1),
    ".": () => timebar.step(1),
    L: timebar.live,
    l: timebar.live,
    a: () => timebar.pin("A"),
    b: () => timebar.pin("B"),
  };
  if (event.key === " " && !target.matches("button, a, summary, [role=button]")) actions[" "] = timebar.play;
  const action = actions[event.key];
  if (!action) return undefined;
  event.preventDefault();
  return action();
}

listen(() => {
  if (!asked) {
    asked = true;
    delete document.documentElement.dataset.settled;
    requestAnimationFrame(draw);
  }
});
router.read();
router.install();
addEventListener("keydown", keys);
addEventListener("moved", () => {
  if (state.at === null && state.head) state.position = state.head;
});
root.replaceChildren();
draw();
live.install();
