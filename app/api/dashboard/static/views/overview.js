// @ts-check
/** Is it well, and where is it full? */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { announce } from "../focus.js";
import { legend, placed, rows as mapRows, table as domains } from "../map.js";
import { bar as share, command, panel } from "../panel.js";
import { all, answer, earliest, moment, offsetOf, state } from "../store.js";
import { ago, between, cut, number, plural, quantity, span, time } from "../format.js";
import { address, set } from "../router.js";
import { bar, paint } from "../timebar.js";
import * as domain from "./domain.js";
import { facts, more, newest, podLink, table, tile } from "./parts.js";
import { present } from "./present.js";

/** Events of the log that are read for the history of a node. */
const READ = 1000;
/** Seconds without a write of the recorder that are marked: it writes every 10 seconds, whatever happens. */
const SILENT = 60;

export function color() {
  return state.query.get("color") || "state";
}

/** What the address asks of the map: the colours, and the label keys of its boxes. */
function drawn() {
  const levels = state.query.get("levels");
  return `color=${encodeURIComponent(color())}${levels ? `&levels=${encodeURIComponent(levels)}` : ""}`;
}

function picture(found) {
  queueMicrotask(() => {
    const map = /** @type {any} */ (document.querySelector("cluster-map"));
    map?.show(found);
    const wanted = state.query.get("find");
    if (map && wanted && map.dataset.found !== wanted && map.find(wanted)) map.dataset.found = wanted;
  });
}

function chooser(cluster) {
  const quotas = [...new Set((cluster.body?.quotas ?? []).map((one) => one.of))].slice(0, 50);
  const resources = (cluster.body?.resources ?? []).filter((one) => one.share !== null).map((one) => one.name);
  const options = ["state", ...resources.map((name) => `resource:${name}`), ...quotas.map((of) => `quota:${of}`), ...(cluster.body?.colours ?? [])];
  if (!options.includes(color())) options.push(color());
  return html`<label class="choose">colour by
    <select @change=${(event) => set({ color: event.target.value === "state" ? null : event.target.value })}>
      ${options.map((value) => html`<option value=${value} .selected=${value === color()}>${value.replace(":", " ")}</option>`)}
    </select></label>
    <button type="button" aria-pressed=${state.query.get("as") === "table"} @click=${() => set({ as: state.query.get("as") === "table" ? null : "table" })}>as a table</button>`;
}

export function overview() {
  paint(drawn());
  const cluster = answer("cluster", moment("/apis/v1/cluster?limit=200"));
  const map = answer("map", moment(`/apis/v1/map?${drawn()}`));
  const reasons = answer("reasons", moment("/apis/v1/pending/reasons?limit=50"));
  const decided = answer("decided", moment("/apis/v1/decisions/facets?buckets=1"));
  const [node, opened] = ["node", "domain"].map((name) => state.query.get(name));
  const shown = state.frame?.picture ?? (state.at !== null && map.body && bar.frames ? placed(map.body, bar.frames) : map.body);
  if (shown) picture(shown);
  const about = present();
  return html`${figures(cluster)}${trust(about.lag.body, about.store.body, about.consistency.body, decided.body)}
    <div class="columns">
      ${panel({ id: "map", title: "Nodes", answer: map, wide: true, extra: chooser(cluster), rows: mapRows }, () => html`
        ${shown.nodes?.length === 0 ? html`<p class="empty">no node is known at this moment</p>` : nothing}
        <cluster-map @node=${(event) => set({ node: event.detail, domain: null })} @domain=${(event) => set({ domain: event.detail.join(","), node: null })}></cluster-map>
        ${legend(shown)}
        ${state.query.get("as") === "table" ? domains(state.frame?.picture ?? map.body, domain.href) : nothing}`)}
      <div class="side">
        ${node ? drawer(node) : opened && map.body ? domain.drawer(opened.split(","), map.body, closeDrawer) : announce("", "node") ?? nothing}
        ${panel({ id: "why", title: "Why pods wait", answer: reasons, rows: (body) => body.groups }, (body) => html`
          ${body.groups.length ? html`<ol class="reasons">${body.groups.slice(0, 5).map((one) => html`<li><b>${number(one.pods)}</b>
              <span>${cut(one.reason || one.message || "no reason is known yet", 180)}
              <small>the oldest for ${ago(one.oldest, body.metadata.asOf)}</small></span></li>`)}</ol>
              <p><a href=${address("pending")}>all reasons, and what would end them</a></p>`
            : html`<p class="empty">no pod waits at this moment</p>`}`)}
        ${panel({ id: "quotas", title: "Fullest quotas", answer: cluster, rows: (body) => body.quotas }, (body) => html`
          ${table([["quota"], ["domain"], ["placed", "n"], ["", "barred"]],
            body.quotas.filter((one) => one.desired !== null).slice(0, 8).map((one) => [
              html`<a href=${address("workloads", [], { of: one.of })}>${one.of}</a>`, one.value,
              `${number(one.placed)} of ${number(one.desired)}`,
              share(one.desired ? one.placed / one.desired : 1, one.placed > one.desired ? "over" : one.placed === one.desired ? "full" : "")]),
            "no object sets a quota")}`)}
        ${panel({ id: "resources", title: "Resources", answer: cluster, rows: (body) => body.resources }, (body) =>
          table([["resource"], ["requested", "n"], ["allocatable", "n"], ["", "barred"]],
            body.resources.filter((one) => one.share !== null).map((one) => [one.name, amount(one.requested), amount(one.allocatable), share(one.share)]), "no node offers a resource"))}
        ${panel({ id: "decided", title: "Decisions", answer: decided, rows: (body) => facet(body, "outcome") }, (body) => html`${newest(body.complete)}
          ${body.examined ? facts(facet(body, "outcome").map((one) => [one.value, number(one.count)])) : html`<p class="empty">no decision is recorded at this moment</p>`}
          <p><a href=${address("decisions")}>${body.examined ? plural(body.examined, "decision") : "all decisions"}</a></p>`)}
      </div>
    </div>`;
}

function amount(exact) {
  return html`<span title=${exact}>${quantity(exact)}</span>`;
}

function facet(body, name) {
  return body.facets.find((one) => one.name === name)?.values ?? [];
}

function figures(cluster) {
  const body = cluster.body;
  if (!body) return cluster.status === "failed" ? html`<p class="failed">${cluster.error}</p>` : html`<div class="tiles"></div>`;
  const frame = state.frame;
  const nodes = frame?.nodes ?? body.nodes.total;
  const ready = frame?.ready ?? body.nodes.ready;
  const off = frame ? "" : [body.nodes.cordoned && `${number(body.nodes.cordoned)} cordoned`, body.nodes.notReady && `${number(body.nodes.notReady)} not ready`].filter(Boolean).join(", ");
  return html`<div class="tiles" id="figures">
    ${tile("nodes", nodes)} ${tile("ready", ready, ready < nodes ? "warn" : "", off)}
    ${tile("pods on nodes", frame?.pods ?? body.pods.onNodes)} ${tile("waiting", frame?.waiting ?? body.pods.waiting, (frame?.waiting ?? body.pods.waiting) ? "warn" : "")}
    ${tile("in flight", frame?.inFlight ?? body.pods.inFlight)}
  </div>`;
}

/** Whether it can be trusted, and how fast it is, in small figures; the page Health has the rest. */
function trust(lag, store, audit, decided) {
  const bucket = decided?.examined ? decided.buckets[0] : null;
  const seconds = bucket ? between(bucket.from, bucket.to) : 0;
  return html`<p class="trust" id="trust">
    <span>lag <b>${lag ? `${number(lag.behind)} events` : "–"}</b></span>
    <span>recorder <b class=${store?.recordedAge > SILENT ? "warn" : ""}>${!store ? "–" : store.recorded ? `wrote ${span(store.recordedAge)} ago` : "never wrote"}</b></span>
    <span>audit <b>${audit?.state ?? "–"}</b></span>
    <span>decisions <b>${seconds >= 1 ? `${(decided.examined / seconds).toFixed(1)} a second` : "–"}</b></span>
    <span>99th percentile <b>${bucket ? `${bucket.p99.toFixed(1)} ms` : "–"}</b></span>
    <a href=${address("health")}>health</a></p>`;
}

/** Close the drawer of a node or a domain; the focus is on the map again, from which it was opened. */
export function closeDrawer() {
  set({ node: null, domain: null, find: null });
  /** @type {any} */ (document.querySelector("cluster-map"))?.focus();
}

function drawer(name) {
  const found = answer("node", moment(`/apis/v1/nodes/${encodeURIComponent(name)}`));
  const from = begin(name, found);
  const past = answer("node-events", from ? moment(`/apis/v1/events?object=${encodeURIComponent(`node:${name}`)}&from=${from}&limit=${READ}`, "to") : null, name, all);
  if (found.body?.node.metadata.name === name) announce(`Node ${name}: ${condition(found.body.node)}, ${plural(found.body.pods.length, "pod")}`, "node");
  return html`${panel({ id: "node", title: `Node ${name}`, answer: found, rows: (body) => body.pods,
    extra: html`<button type="button" aria-label="close the node" @click=${closeDrawer}>close</button>` },
  (body) => html`
    ${facts([
      ["ready", body.node.status.conditions[0].status === "True" ? "yes" : "no"],
      ["cordoned", body.node.spec.unschedulable ? "yes" : "no"],
      ...Object.entries(body.allocatable).map(([key, amount]) => [key, `${quantity(body.requested[key] ?? 0)} of ${quantity(amount)}`]),
    ])}
    <h3>Pods</h3>
    ${table([["pod"], ["state"]], body.pods.slice(0, 20).map((pod) => [podLink(`${pod.namespace}/${pod.name}`), pod.state]), "no pod is on it")}
    ${more(Math.max(0, body.pods.length - 20), "pods")}
    <h3>Labels</h3>
    ${facts(Object.entries(body.node.metadata.labels))}
`)}
  ${panel({ id: "node-history", title: `History of ${name}`, answer: past, rows: (body) => body.items }, (body) => history(name, body, from))}`;
}

/** The first offset of the history that is read: it ends with the latest event about the node; 0 before it is known. */
function begin(name, { status, body }) {
  if (status !== "failed" && body?.node.metadata.name !== name) return 0;
  const last = body?.generation ?? offsetOf(state.position);
  return Math.max(earliest() + 1, last - READ + 1);
}

function history(name, { items, metadata }, from) {
  const shown = items.slice(-8);
  const first = items.length > shown.length ? shown[0].offset : from;
  return html`${first > earliest() + 1 ? html`<p class="empty">events before offset ${number(first)} are left out: <code>${command("get", "events", "--where", `object=node:${name}`, "--where", `to=${first - 1}`)}</code></p>` : nothing}
    ${table([["offset", "n"], ["when"], ["event"]], shown.map((one) => [number(one.offset), time(one.at), one.type]), "no event is about it")}
    ${metadata.continue && items.length ? html`<p class="empty">events behind offset ${number(items.at(-1).offset)} are left out: <code>${command("get", "events", "--where", `object=node:${name}`, "--where", `from=${items.at(-1).offset + 1}`)}</code></p>` : nothing}`;
}

function condition(node) {
  const ready = node.status.conditions[0].status === "True" ? "ready" : "not ready";
  return node.spec.unschedulable ? `${ready}, cordoned` : ready;
}
