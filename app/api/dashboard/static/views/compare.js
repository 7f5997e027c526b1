// @ts-check
/** What would be different? Two moments, or the present with overrides. */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { panel, quoted } from "../panel.js";
import { answer, ask, changed, earliest, offsetOf, state } from "../store.js";
import { cut, number, plural } from "../format.js";
import { set } from "../router.js";
import { more, podLink, table } from "./parts.js";

const TEMPLATES = {
  "cordon nodes": [{ op: "cordon", nodes: ["NODE"] }],
  "add nodes": [{ op: "addNodes", count: 10, like: "NODE" }],
  "remove nodes": [{ op: "removeNodes", nodes: ["NODE"] }],
  "change a quota": [{ op: "scalePolicy", policy: "NAMESPACE/NAME", allocations: { DOMAIN: "+2" } }],
  "delete pods": [{ op: "deletePods", pods: ["NAMESPACE/NAME"] }],
};
const asked = { overrides: "[]", pod: "", busy: false, error: "", body: null, question: null };

function moments(event) {
  event.preventDefault();
  const { from, to } = event.target.elements;
  set({ from: from.value.trim(), to: to.value.trim() });
}

async function simulate(event) {
  event.preventDefault();
  Object.assign(asked, { busy: true, error: "", body: null });
  changed();
  try {
    const overrides = JSON.parse(asked.overrides || "[]");
    const situation = { at: state.position, overrides };
    asked.question = asked.pod ? { pod: asked.pod, situation, top: 20 } : { pending: {}, situation, top: 20 };
    asked.body = await ask("/apis/v1/simulate", asked.question);
  } catch (error) {
    asked.error = error instanceof SyntaxError ? `the overrides are no JSON: ${error.message}` : error.message;
  }
  asked.busy = false;
  changed();
}

export function compare() {
  const shown = state.position ? offsetOf(state.position) : 0;
  const from = state.query.get("from") ?? String(Math.max(earliest(), shown - 500));
  const to = state.query.get("to") ?? String(shown);
  const differences = answer("diff", state.position ? `/apis/v1/diff?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}&limit=50` : null);
  return html`
    ${panel({ id: "diff", title: "Two moments", answer: differences, wide: true, command: `topolog diff ${from} ${to}`,
      rows: (body) => Object.entries(body.sections).flatMap(([section, found]) => found.rows.map((row) => ({ section, name: row.name, change: row.change, fields: row.fields }))),
      extra: html`<form class="inline" @submit=${moments}><label>A <input name="from" .value=${from}></label><label>B <input name="to" .value=${to}></label><button>compare</button></form>` }, (body) => html`
      <p>From ${body.from} to ${body.to}: ${body.same ? "nothing differs." : nothing}</p>
      ${Object.entries(body.sections).filter(([, found]) => found.rows.length).map(([name, found]) => html`
        <h3>${name}: ${number(found.began)} began, ${number(found.ended)} ended, ${number(found.changed)} changed</h3>
        ${table([["name"], ["change"], ["fields"]], found.rows.map((row) => [cut(row.name, 100), row.change, row.fields.map((one) => html`<span class="field">${one.field}: ${cut(value(one.before), 60)} → ${cut(value(one.after), 60)}</span> `)]))}
        ${more(found.more, "rows")}`)}`)}
    <section class="panel wide" id="what-if" aria-labelledby="what-if-title"><header><h2 id="what-if-title">What if</h2></header><div class="content">
      <form class="what-if" @submit=${simulate}>
        <label>Overrides at the moment shown, as JSON
          <select @change=${(event) => { if (event.target.value) asked.overrides = JSON.stringify(TEMPLATES[event.target.value], null, 1); changed(); }}>
            <option value="">start from …</option>${Object.keys(TEMPLATES).map((name) => html`<option value=${name}>${name}</option>`)}</select>
          <textarea aria-label="overrides as JSON" rows="6" spellcheck="false" .value=${asked.overrides} @input=${(event) => (asked.overrides = event.target.value)}></textarea></label>
        <label>Pod, NAMESPACE/NAME; empty for all that wait <input .value=${asked.pod} @input=${(event) => (asked.pod = event.target.value.trim())}></label>
        <button ?disabled=${asked.busy}>${asked.busy ? "asking …" : "simulate"}</button>
      </form>
      <div role="status">${asked.error ? html`<p class="failed">${cut(asked.error, 600)}</p>` : asked.body ? outcome(asked.body) : nothing}</div>
    </div></section>`;
}

function value(found) {
  return found === null ? "–" : typeof found === "string" ? found : JSON.stringify(found);
}

function outcome(body) {
  const changes = Object.entries(body.situation.events).map(([type, count]) => `${count} ${type}`).join(", ");
  const command = `topolog simulate ${asked.pod || "--pending"} --at ${body.situation.at} --situation ${quoted(JSON.stringify({ overrides: asked.question.situation.overrides }))}`;
  return html`<p><b>${asked.pod ? (body.fits ? "It fits." : "It does not fit.") : `${number(body.placedPods)} of ${plural(body.pods, "waiting pod")} would be placed.`}</b>
      ${body.baseline ? html`Without the overrides: ${body.baseline.summary}` : nothing} ${changes ? `The overrides became ${changes}.` : ""}
      ${body.situation.idle.length ? html`<span class="failed">Overrides that change nothing: ${body.situation.idle.join(", ")}.</span>` : nothing}</p>
    ${body.explanation ? html`<p class="why">${body.explanation.summary}</p>` : nothing}
    ${body.placed.length ? table([["placed"], ["node"]], body.placed.map((one) => [podLink(one.pod), one.node])) : nothing}
    ${body.refused.length ? table([["refused"], ["reason"]], body.refused.map((one) => [podLink(one.pod), cut(one.reason, 300)])) : nothing}
    ${body.counts.length ? table([["count"], ["before", "n"], ["after", "n"]], body.counts.map((one) => [one.count, number(one.before), number(one.after)])) : nothing}
    <p class="limits">${body.limits.join("; ")}</p><p class="limits"><code>${command}</code></p>`;
}
