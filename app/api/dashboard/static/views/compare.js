// @ts-check
/** What would be different? Two moments, the present with overrides, and shadows. */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { command, panel } from "../panel.js";
import { answer, ask, changed, earliest, forget, moment, offsetOf, state } from "../store.js";
import { cut, number, plural, time } from "../format.js";
import { address, set } from "../router.js";
import { to as show } from "../timebar.js";
import { more, podLink, table } from "./parts.js";

/** Overrides to start from, with names of this cluster. */
const TEMPLATES = {
  "cordon a node": ({ node }) => [{ op: "cordon", nodes: [node] }],
  "add nodes": ({ node }) => [{ op: "addNodes", count: 10, like: node }],
  "remove a node": ({ node }) => [{ op: "removeNodes", nodes: [node] }],
  "change a quota": ({ policy, domain }) => [{ op: "scalePolicy", policy, allocations: { [domain]: "+1" } }],
  "delete pods": () => [{ op: "deletePods", pods: ["NAMESPACE/NAME"] }],
};
const asked = { overrides: "[]", pod: "", busy: "", error: "", kind: "", body: null, line: "" };
let again = 0;

/** What each button asks, and the command that asks the same. */
const QUESTIONS = {
  simulate(at, overrides) {
    const situation = { at, overrides };
    return [asked.pod ? { pod: asked.pod, situation, top: 20 } : { pending: {}, situation, top: 20 }, ["simulate", asked.pod || "--pending", "--at", at]];
  },
  replay(at, overrides, { from, to }) {
    return [{ from, to, overrides, limit: 50, budget: 20 }, ["replay", "--from", from, "--to", to, "--limit", "50", "--budget", "20"]];
  },
  diff(at, overrides) {
    return [{ from: { at }, to: { at, overrides }, limit: 50 }, ["diff", at, at, "--limit", "50"]];
  },
};

async function pose(kind, range) {
  Object.assign(asked, { busy: kind, error: "", body: null });
  changed();
  try {
    const overrides = JSON.parse(asked.overrides || "[]");
    if (!Array.isArray(overrides)) throw new Error("the overrides are no list: [{\"op\": …}]");
    const [question, words] = QUESTIONS[kind](state.position, overrides, range);
    const line = command(...words, ...overrides.flatMap((one) => ["--override", JSON.stringify(one)]));
    const body = await ask(`/apis/v1/${kind}`, question);
    Object.assign(asked, { kind, body, line });
  } catch (error) {
    asked.error = error instanceof SyntaxError ? `the overrides are no JSON: ${error.message}` : error.message;
  }
  asked.busy = "";
  changed();
}

export function compare() {
  const shown = state.position ? offsetOf(state.position) : 0;
  const range = { from: state.query.get("from") ?? String(Math.max(earliest(), shown - 500)), to: state.query.get("to") ?? String(shown) };
  return html`${between(range)} ${whatIf(range)} ${shadows()}`;
}

function between({ from, to }) {
  const differences = answer("diff", state.position ? `/apis/v1/diff?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}&limit=50` : null);
  const moments = (event) => {
    event.preventDefault();
    const { from: first, to: second } = event.target.elements;
    set({ from: first.value.trim(), to: second.value.trim() });
  };
  return panel({ id: "diff", title: "Two moments", answer: differences, wide: true, command: command("diff", from, to, "--limit", "50"),
    rows: (body) => Object.entries(body.sections).flatMap(([section, found]) => found.rows.map((row) => ({ section, name: row.name, change: row.change, fields: row.fields }))),
    extra: html`<form class="inline" @submit=${moments}><label>A <input name="from" .value=${from}></label><label>B <input name="to" .value=${to}></label><button>compare</button></form>` }, (body) => html`
    <p>From ${body.from} to ${body.to}: ${body.same ? "nothing differs." : nothing}</p>${sections(body)}`);
}

/** The differences of two states, a table for each kind of object; a long one is closed. */
function sections(body) {
  return Object.entries(body.sections).filter(([, found]) => found.rows.length).map(([name, found]) => html`
    <details class="section" ?open=${found.rows.length <= 8}><summary><b>${name}</b>: ${number(found.began)} began, ${number(found.ended)} ended, ${number(found.changed)} changed</summary>
    ${table([["name"], ["change"], ["fields"]], found.rows.map((row) => [cut(row.name, 100), row.change, fieldsOf(name, row).map((one) => html`<span class="field">${one.field}: ${cut(value(one.before), 60)} → ${cut(value(one.after), 60)}</span> `)]))}
    ${more(found.more, "rows")}</details>`);
}

/** The fields of what changed; of what began or ended only its node, for its JSON has all. */
function fieldsOf(section, row) {
  return row.change === "changed" || section === "counts" ? row.fields : row.fields.filter((one) => one.field === "node");
}

function whatIf(range) {
  const nodes = answer("a-node", moment("/apis/v1/nodes?limit=1"));
  const cluster = answer("a-quota", moment("/apis/v1/cluster?limit=1"));
  const quota = cluster.body?.quotas[0];
  const names = { node: nodes.body?.items[0]?.name ?? "NODE", policy: quota?.of ?? "NAMESPACE/NAME", domain: quota?.value ?? "DOMAIN" };
  const begin = (event) => {
    const template = TEMPLATES[event.target.value];
    if (template) asked.overrides = JSON.stringify(template(names), null, 1);
    event.target.value = "";
    changed();
  };
  return html`<section class="panel wide" id="what-if" aria-labelledby="what-if-title"><header><h2 id="what-if-title">What if</h2></header><div class="content">
      <form class="what-if" @submit=${(event) => { event.preventDefault(); pose("simulate", range); }}>
        <label>Start from <select @change=${begin}><option value="">…</option>${Object.keys(TEMPLATES).map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
        <label>Overrides at the moment shown, as JSON
          <textarea rows="6" spellcheck="false" .value=${asked.overrides} @input=${(event) => (asked.overrides = event.target.value)}></textarea></label>
        <label>Pod, NAMESPACE/NAME; empty for all that wait <input .value=${asked.pod} @input=${(event) => (asked.pod = event.target.value.trim())}></label>
        <div class="inline">
          <button ?disabled=${asked.busy !== ""}>simulate</button>
          <button type="button" ?disabled=${asked.busy !== ""} @click=${() => pose("replay", range)}>replay the decisions from A to B</button>
          <button type="button" ?disabled=${asked.busy !== ""} @click=${() => pose("diff", range)}>compare the state</button></div>
      </form>
      <div role="status">${asked.busy ? html`<p class="waiting">asking …</p>` : asked.error ? html`<p class="failed">${cut(asked.error, 600)}</p>` : asked.body ? outcome(asked.kind, asked.body) : nothing}</div>
    </div></section>`;
}

function value(found) {
  return found === null ? "–" : typeof found === "string" ? found : JSON.stringify(found);
}

function outcome(kind, body) {
  const drawn = { simulate: simulated, replay: replayed, diff: (found) => html`<p>${found.same ? "Nothing differs." : nothing}</p>${sections(found)}` };
  return html`<div id="outcome">${drawn[kind](body)}
    ${body.limits?.length ? html`<p class="limits">${body.limits.join("; ")}</p>` : nothing}<p class="limits"><code>${asked.line}</code></p></div>`;
}

function simulated(body) {
  const changes = Object.entries(body.situation.events).map(([type, count]) => `${count} ${type}`).join(", ");
  return html`<p><b>${body.explanation ? (body.fits ? "It fits." : "It does not fit.") : `${number(body.placedPods)} of ${plural(body.pods, "waiting pod")} would be placed.`}</b>
      ${body.baseline ? html`Without the overrides: ${body.baseline.summary}.` : nothing} ${changes ? `The overrides became ${changes}.` : ""}
      ${idle(body.situation.idle)}</p>
    ${body.explanation ? html`<p class="why">${cut(body.explanation.summary, 600)}</p>` : nothing}
    ${body.placed.length ? table([["placed"], ["node"]], body.placed.map((one) => [podLink(one.pod), one.node])) : nothing}
    ${body.refused.length ? table([["refused"], ["reason"]], body.refused.map((one) => [podLink(one.pod), cut(one.reason, 300)])) : nothing}
    ${body.counts.length ? table([["count"], ["before", "n"], ["after", "n"]], body.counts.map((one) => [one.count, number(one.before), number(one.after)])) : nothing}`;
}

function replayed(body) {
  return html`<p><b>${number(body.same)} of ${plural(body.looked, "decision")} would have been the same.</b> ${body.complete ? nothing : "The time for an answer ended before the range did."} ${idle(body.idle)}</p>${differing(body)}`;
}

function idle(indexes) {
  return indexes.length ? html`<span class="failed">Overrides that change nothing: ${indexes.map((one) => one + 1).join(", ")}.</span>` : nothing;
}

/** Decisions that would have been others, by class and one by one. */
function differing(body) {
  const named = (numbers) => Object.entries(numbers).filter(([, count]) => count);
  const skipped = named(body.skipped).map(([cause, count]) => `${number(count)} ${cause}`).join(", ");
  return html`
    ${named(body.classes).length ? table([["class"], ["decisions", "n"]], named(body.classes).map(([name, count]) => [name, number(count)])) : nothing}
    ${skipped ? html`<p class="warned">Not compared: ${skipped}.</p>` : nothing}
    ${body.items.length ? table([["class"], ["when"], ["verb"], ["pod"], ["kept", "n"], ["would keep", "n"], ["reasons then"]], body.items.map((one) => [
      one.class, html`<a href=${address("pods", [one.pod.namespace, one.pod.name], { decision: one.id })}>${time(one.at)}</a>`, one.verb, podLink(`${one.pod.namespace}/${one.pod.name}`),
      number(one.was.kept), number(one.would.kept), cut(Object.keys(one.would.reasons).join("; "), 160)]), "nothing", body.items.map((one) => one.id)) : nothing}`;
}

function refresh() {
  again = 0;
  for (const name of ["shadows", "shadow"]) forget(name);
  changed();
}

function shadows() {
  const listed = answer("shadows", moment("/apis/v1/shadows"));
  // The numbers grow with the decisions, which are no events: without a new position they are asked for again.
  if (state.at === null && listed.body?.items.length) again ||= setTimeout(refresh, 5000);
  const chosen = state.query.get("shadow");
  return html`${panel({ id: "shadows", title: "Shadows", answer: listed, wide: true, command: command("get", "shadows", "--at", state.position),
      rows: (body) => body.items.map(({ numbers, ...rest }) => ({ ...rest, ...numbers })) }, (body) =>
      table([["shadow"], ["since", "n"], ["until"], ["compared", "n"], ["same", "n"], ["others", "n"], ["by"], ["note"]], body.items.map((one) => [
        html`<a href=${address("compare", [], { shadow: one.name })} aria-current=${one.name === chosen}>${one.name}</a>`,
        html`<button type="button" class="at" title="show the cluster at this moment" @click=${() => show(one.since)}>${number(one.since)}</button>`,
        one.until ? `${time(one.until)}${one.ended ? ", ended" : ""}` : "–", number(one.numbers?.looked), number(one.numbers?.same),
        one.numbers ? number(one.numbers.looked - one.numbers.same) : "–", one.by, cut(one.note, 120)]),
      "no shadow is set: topolog shadow set NAME --set-policy FILE compares every decision with another policy, and enforces nothing", body.items.map((one) => one.name)))}
    ${chosen ? panel({ id: "shadow", title: `Shadow ${chosen}`, answer: answer("shadow", moment(`/apis/v1/shadows/${encodeURIComponent(chosen)}`)), wide: true,
      command: command("shadow", "show", chosen), rows: (body) => body.differences?.items ?? [] }, (body) => body.differences
      ? html`<p><b>${number(body.differences.same)} of ${plural(body.differences.looked, "decision")} would have been the same.</b> ${body.differences.gap ? html`<span class="warned">Records may have been trimmed before they were compared.</span>` : nothing}</p>
        ${body.differences.problem ? html`<p class="failed">${body.differences.problem}</p>` : nothing}${differing(body.differences)}
        <p class="limits">${body.differences.limits.join("; ")}</p>`
      : html`<p class="empty">no decision was compared yet</p>`) : nothing}`;
}
