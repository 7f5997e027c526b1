// @ts-check
/** What happened to this pod? */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { legend, rows as mapRows } from "../map.js";
import { announce } from "../focus.js";
import { command, forms, panel } from "../panel.js";
import { answer, ask, changed, moment, offsetOf, onForget, state } from "../store.js";
import { cut, number, plural, quantity, time } from "../format.js";
import { address } from "../router.js";
import { to } from "../timebar.js";
import * as answers from "./answers.js";
import { onOverview } from "./domain.js";
import { facts, more, nodeLink, podLink, table, unfinished } from "./parts.js";

let since = { key: "", to: "", text: "", body: null };
onForget(() => (since = { key: "", to: "", text: "", body: null }));

async function bisect(key) {
  const mine = { key, to: state.position, text: "looking …", body: null };
  since = mine;
  changed();
  try {
    Object.assign(mine, { text: "", body: await ask("/apis/v1/bisect", { fits: key, to: mine.to }) });
  } catch (error) {
    mine.text = error.message;
  }
  changed();
}

export function pod() {
  if (state.path.length < 2) {
    return html`<section class="panel wide"><div class="content"><p class="empty">Search for a pod by NAMESPACE/NAME above (key /), or open one from <a href=${address("pending")}>Pending</a>.</p></div></section>`;
  }
  const [namespace, name] = state.path;
  const key = `${namespace}/${name}`;
  const base = `/apis/v1/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const seen = answer("pod", moment(base));
  const life = answer("life", moment(`${base}/life?limit=300`));
  // Only those that can be explained: the state before the first offset is not kept.
  const attempts = life.body?.items.filter((one) => one.decision && one.offset >= life.body.first) ?? [];
  const chosen = state.query.get("decision") ?? attempts.findLast((one) => /^filter/.test(one.text))?.decision ?? attempts.at(-1)?.decision ?? null;
  const tried = attempts.find((one) => one.decision === chosen);
  const question = chosen ? `${base}/explain?decision=${encodeURIComponent(chosen)}&limit=20` : life.body ? moment(`${base}/explain?limit=20`) : null;
  const why = answer("why", question, `${base} ${chosen}`);
  // Such as one before the history that the log has now.
  const unexplained = life.body && why.status === "failed";
  const map = answer("pod-map", chosen ? `/apis/v1/map?color=${encodeURIComponent(`decision:${chosen}`)}` : null, `${base} ${chosen}`);
  if (map.body && chosen) queueMicrotask(() => /** @type {any} */ (document.querySelector("cluster-map"))?.show(map.body));
  if (why.body) announce(`${chosen ? `Attempt ${chosen}` : "If it were tried now"}: ${cut(why.body.summary, 600)}`, "attempt");
  return html`
    <div class="columns even">
      ${panel({ id: "pod", title: `Pod ${cut(key, 120)}`, answer: seen, command: command("get", "pods", key, "--at", state.position), rows: (body) => [body] }, (body) => html`
        ${facts([["state", body.state], ["node", nodeLink(body.node)], ["priority", number(body.priority)], ["scheduler", body.scheduler], ["owner", body.owner ?? "–"],
          ["created", time(body.created)], ...Object.entries(body.requests).map(([resource, amount]) => [resource, quantity(amount)]), ["plugins", body.plugins.join(", ") || "none"]])}
        ${body.message ? html`<p class="why">kube-scheduler: ${cut(body.message, 600)}</p>` : nothing}
        <details><summary>labels</summary>${facts(Object.entries(body.labels).map(([label, value]) => [label, cut(value, 200)]))}</details>
        <p><button type="button" @click=${() => bisect(key)}>since when does it ${body.state === "pending" ? "not " : ""}fit?</button></p>
        ${since.key === key ? answered() : nothing}`)}
      ${panel({ id: "life", title: "Life", answer: life, rows: (body) => body.items }, (body) => html`
        ${body.complete ? nothing : html`<p class="empty">events are read from offset ${number(body.first)} on, and the latest 20,000 decisions: what was before is not shown</p>`}
        ${more(body.more, "items before these")}
        <ol class="life">${lived(body).map((one) => html`<li class="${one.kind} ${one.outcome ?? ""} ${one.unseen ? "unseen" : ""}" ?data-chosen=${one.decision && one.decision === chosen}>
          <button type="button" class="at" title="show the cluster at this moment" @click=${() => to(one.offset)}>${number(one.offset)}</button>
          <span class="dot" aria-hidden="true"></span>
          <span class="what">${one.decision
            ? html`<a href=${address("pods", state.path, { decision: one.decision })} aria-current=${one.decision === chosen}>attempt</a> `
            : one.text.startsWith(one.kind) ? nothing : html`<b>${one.kind}</b> `}${cut(one.text, 300)} ${one.at ? html`<small>${time(one.at)}</small>` : nothing}</span></li>`)}</ol>`)}
    </div>
    ${chosen || why.body || unexplained ? html`<div class="columns even">
      ${panel({ id: "why", title: tried ? `Attempt at ${time(tried.at)}` : chosen ? `Attempt ${chosen}` : unexplained ? "Latest attempt" : "If it were tried now", answer: why, rows: (body) => body.scores, command: command("explain", key, ...(chosen ? ["--decision", chosen] : ["--at", state.position])) }, explained)}
      ${chosen ? panel({ id: "pod-map", title: "What it kept and refused", answer: map, rows: mapRows }, (body) => html`<cluster-map @node=${onOverview} @domain=${onOverview}></cluster-map>${legend(body)}`) : nothing}
    </div>` : nothing}`;
}

/** What happened, with the stretches that were not watched between it. */
function lived({ items, gaps, more: before }) {
  const first = before ? items[0].offset : 0;
  const unseen = (offset) => gaps.some((gap) => offset > gap.from && offset < gap.to);
  return [
    ...gaps.filter((gap) => gap.to >= first).map((gap) => ({ kind: "gap", offset: gap.from, unseen: true, text: `not watched until offset ${number(gap.to)}: ${gap.reason}` })),
    ...items.map((one) => ({ ...one, unseen: unseen(one.offset) })),
  ].sort((one, other) => one.offset - other.offset);
}

function explained(body) {
  const plugins = [...new Set(body.scores.flatMap((one) => Object.keys(one.scores)))];
  return html`<p class="why">${cut(body.summary, 600)}</p>
    ${body.difference ? html`<p class="warned">${body.difference}</p>` : nothing}
    ${body.refusals.length ? table([["nodes", "n"], ["plugin"], ["reason", "w"], ["such as"]], body.refusals.map((one) => [number(one.nodes), one.plugin, cut(one.reason, 300), one.examples.slice(0, 3).join(", ")])) : nothing}
    ${body.change.length ? html`<p>Smallest change: ${body.change.map((one, index) => html`${index ? "; or " : ""}<b>${one}</b>`)}</p>` : nothing}
    ${body.inFlight.length ? html`<h3>In flight, and counted</h3>${table([["pod"], ["node"], ["when"], ["counts"]], body.inFlight.map((one) => [podLink(one.pod), nodeLink(one.node), time(one.at), cut(one.counts.join(", "), 160)]))}${more(body.moreInFlight, "placements in flight")}` : nothing}
    ${body.nominated.length ? html`<p>Nominated, and counted as placed: ${body.nominated.map((key, index) => html`${index ? ", " : ""}${podLink(key)}`)}</p>` : nothing}
    ${body.remarks.length ? html`<ul>${body.remarks.map((one) => html`<li>${one.plugin}: ${one.text}</li>`)}</ul>` : nothing}
    ${table([["node"], ["kept"], ...plugins.map((name) => [`${name}${body.weights[name] > 1 ? ` ×${body.weights[name]}` : ""}`, "n"]), ["total", "n"]],
      body.scores.map((one) => [nodeLink(one.node), one.kept ? "yes" : `no (${one.plugin})`, ...plugins.map((name) => number(one.scores[name]?.weighted)), number(one.total)]), "no node was offered")}
    ${more(body.more, "nodes")}`;
}

/** The event at which the answer changed; what is known of it if the search was not finished. */
function lastChange({ since: found, complete, from }) {
  if (!found) return complete ? `, and did not change since ${from}` : nothing;
  if (!complete) return html` since an event after offset ${at(offsetOf(found.before))}, at the latest ${at(offsetOf(found.after))}`;
  if (!found.event) return ` since ${found.after}`;
  return html` since <b>${found.event.type} ${cut(found.event.name, 100)}</b> at offset ${at(found.event.offset)}, ${time(found.event.at)}`;
}

/** An offset, and the way to its moment. */
function at(offset) {
  return html`<button type="button" class="at" title="show the cluster at this moment" @click=${() => to(offset)}>${number(offset)}</button>`;
}

function answered() {
  if (!since.body) return html`<p role="status">${since.text}</p>`;
  return html`<div class="advice" role="status"><p>It ${since.body.now ? "fits" : "does not fit"}${lastChange(since.body)}. ${unfinished(since.body, "The last change was not found")}</p>
    <p class="limits">${plural(since.body.examined, "moment")} examined; ${since.body.limits.join("; ")}</p>
    <div class="forms">${forms({ id: "bisect", body: since.body, rows: answers.ROWS.bisect, line: answers.bisecting(since.key, since.to) })}</div></div>`;
}
