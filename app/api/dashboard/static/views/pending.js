// @ts-check
/** Why do pods wait, and what would end it? */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { repeat } from "../../vendor/lit-html-3.3.3/directives/repeat.js";
import { command, forms, panel } from "../panel.js";
import { answer, ask, changed, moment, offsetOf, onForget, state } from "../store.js";
import { ago, cut, number, plural, quantity, span } from "../format.js";
import * as answers from "./answers.js";
import { more, podLink, table, untried } from "./parts.js";

/** What was tried, by reason, each with the position that it was asked of. */
const tried = new Map();
let simulated = { position: "", overrides: [], text: "", body: null, line: "" };
onForget(() => {
  tried.clear();
  simulated = { position: "", overrides: [], text: "", body: null, line: "" };
});
const TOP = 10;

async function fit(group) {
  const key = group.reason;
  tried.set(key, { position: state.position, busy: true });
  changed();
  const question = { pod: group.first[0], situation: { at: state.position } };
  try {
    tried.set(key, { position: state.position, question, found: await ask("/apis/v1/fit", question) });
  } catch (error) {
    tried.set(key, { position: state.position, error: error.message });
  }
  changed();
}

async function simulate(overrides) {
  const mine = { position: state.position, overrides, text: "asking …", body: null, line: answers.simulating({ at: state.position, overrides }, "", TOP) };
  simulated = mine;
  changed();
  try {
    const body = await ask("/apis/v1/simulate", { pending: {}, situation: { at: mine.position, overrides }, top: TOP });
    Object.assign(mine, { text: "", body });
  } catch (error) {
    mine.text = error.message;
  }
  changed();
}

export function pending() {
  const reasons = answer("pending", moment("/apis/v1/pending/reasons?limit=200"));
  const listed = answer("pending-list", moment("/apis/v1/pending?limit=50"));
  return html`
    ${panel({ id: "groups", title: "Reasons", answer: reasons, wide: true, rows: (body) => body.groups,
      extra: html`<button type="button" @click=${() => simulate([])}>simulate all of them</button>` }, (body) => html`
      ${outcome()}
      ${body.groups.length
        ? html`<p>${plural(body.waiting, "pod")} wait${body.waiting === 1 ? "s" : ""}${body.examined < body.waiting ? html`; the ${number(body.examined)} oldest are grouped` : nothing}.</p>`
        : html`<p class="empty">no pod waits at this moment</p>`}
      <ol class="groups">${repeat(body.groups, (group) => group.reason + group.message, (group) => card(group, body.metadata.asOf))}</ol>
      ${more(body.more, "reasons")}`)}
    ${panel({ id: "pods", title: "Pods, the longest waiting first", answer: listed, wide: true, rows: (body) => body.items, command: command("get", "pending", "--limit", "50", "--at", state.position) }, (body) => html`
      ${table([["pod"], ["waits", "n"], ["attempts", "n"], ["reason", "w"]], body.items.map((one) => [
        podLink(`${one.namespace}/${one.name}`), span(one.age), `${number(one.attempts)}${one.attemptsComplete ? "" : "+"}`, cut(one.reason || one.message || "no objection", 160)]), "no pod waits at this moment", body.items.map((one) => one.uid))}
      ${more(body.metadata.remaining, "pods")}`)}`;
}

function card(group, asOf) {
  const found = tried.get(group.reason);
  const requests = Object.entries(group.requests).map(([name, amount]) => `${quantity(amount)} ${name}`).join(", ");
  return html`<li class="group">
    <p class="why">${cut(group.reason || group.message || "Topolog has no objection, and kube-scheduler has given no reason yet", 600)}</p>
    <p class="numbers"><b>${plural(group.pods, "pod")}</b> · the oldest for ${ago(group.oldest, asOf)} · together ${requests || "no requests"}
      · in ${namespaces(group.namespaces)}</p>
    ${group.changes.length ? html`<p>Smallest change for the first: ${group.changes.map((change, index) => html`${index ? "; or " : ""}<b>${cut(change, 300)}</b>`)}
      <button type="button" @click=${() => fit(group)}>try</button></p>` : nothing}
    ${found ? advice(found) : nothing}
    <details><summary>${group.first.length < group.pods ? `the first ${plural(group.first.length, "pod")}` : plural(group.pods, "pod")}, by name</summary><p class="names">${group.first.map((key) => html`${podLink(key)} `)}</p></details>
  </li>`;
}

/** The namespace of the pods; of several, each with its number of pods. */
function namespaces(numbers) {
  const all = Object.entries(numbers);
  return all.length === 1 ? all[0][0] : all.map(([name, count]) => `${name} (${number(count)})`).join(", ");
}

/** The moment that a question was asked of: a live page soon shows another one. */
function askedAt(position) {
  return html`<p class="limits">Asked at offset ${number(offsetOf(position))}.</p>`;
}

function advice(found) {
  if (found.busy) return html`<p class="waiting" role="status">looking for the smallest changes …</p>`;
  if (found.error) return html`<p class="failed" role="status">${found.error}</p>`;
  const body = found.found;
  return html`<div class="advice" role="status"><p>${body.fits ? "It fits as it is." : `${plural(body.changes.length, "change")} found, ${number(body.tried)} tried.`} ${body.complete ? nothing : html`<span class="warned">Not all changes were tried.</span>`}</p>
    <ul>${body.changes.map((change) => html`<li>${change.message} → ${plural(change.kept, "node")}
      <button type="button" @click=${() => simulate(change.overrides)}>simulate with it</button>
      <code>${JSON.stringify(change.overrides)}</code></li>`)}</ul>
    ${body.more ? html`<p class="empty">… and more that change as little</p>` : nothing} ${askedAt(found.position)}
    <div class="forms">${forms({ id: "fit", body, rows: answers.ROWS.fit, line: answers.fitting(found.question.pod, found.position) })}</div></div>`;
}

function outcome() {
  if (!simulated.position) return nothing;
  if (!simulated.body) return html`<p role="status">${simulated.text}</p>`;
  const body = simulated.body;
  return html`<div class="advice" role="status">
    <p><b>${number(body.placedPods)} of ${plural(body.pods, "waiting pod")} would be placed</b>${body.baseline && simulated.overrides.length ? html`; without the change ${number(body.baseline.kept)}` : nothing}. ${untried(body)}</p>
    ${body.placed.length ? table([["pod"], ["node"]], body.placed.map((one) => [podLink(one.pod), one.node])) : nothing}
    ${more(body.placedPods - body.placed.length, "pods that are placed")}
    ${body.counts.length ? table([["count"], ["before", "n"], ["after", "n"]], body.counts.map((one) => [one.count, number(one.before), number(one.after)])) : nothing}
    ${more(body.moreCounts, "counts")}
    <p class="limits">${body.limits.join("; ")}</p> ${askedAt(simulated.position)}
    <div class="forms">${forms({ id: "simulate", body, rows: answers.ROWS.simulate, line: simulated.line })}</div></div>`;
}
