// @ts-check
/** What would be different? Two moments, the present with overrides, and shadows. */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { legend } from "../map.js";
import { command, forms, panel, quoted } from "../panel.js";
import { answer, ask, changed, earliest, forget, moment, offsetOf, onForget, state } from "../store.js";
import { cut, number, plural, time } from "../format.js";
import { address, set } from "../router.js";
import { to as show } from "../timebar.js";
import * as answers from "./answers.js";
import { onOverview } from "./domain.js";
import * as links from "./links.js";
import { more, podLink, table, unfinished, untried } from "./parts.js";

/** Overrides to start from, with names of this cluster. */
const TEMPLATES = {
  "cordon a node": ({ node }) => [{ op: "cordon", nodes: [node] }],
  "add nodes": ({ node }) => [{ op: "addNodes", count: 10, like: node }],
  "remove a node": ({ node }) => [{ op: "removeNodes", nodes: [node] }],
  "delete pods": () => [{ op: "deletePods", pods: ["NAMESPACE/NAME"] }],
};
/**
 * The two situations: each a moment (empty: the one shown), overrides and other plugin settings as JSON, and the
 * override with an open form.
 */
const blank = () => ({ at: "", overrides: "[]", configuration: "", form: null, values: {} });
const sides = { a: blank(), b: blank() };
/** What was asked, and the part of the address after # that leads to it: empty if it is too long for one. */
const asked = { of: "", pod: "", busy: "", error: "", kind: "", body: null, first: null, lines: [], unused: [] };
onForget(() => Object.assign(asked, { error: "", body: null }));
let again = 0;

/** What the classes of decisions that differ mean. */
const CLASSES = {
  refused: "it fitted, and would not",
  admitted: "it did not fit, and would",
  node: "another node would be chosen",
  nodes: "another set of nodes would be kept",
  reason: "the same nodes would be refused, for other reasons",
  scores: "the same nodes would be kept, with other scores",
};

/** Rows of one answer. */
const ROWS = 20;

/** What each button asks of the two situations, the commands that ask the same, and what of the form is not used. */
const QUESTIONS = {
  async simulate({ pod, a: first, b: second }) {
    const pods = pod ? { pod } : { pending: {} };
    // B alone is compared with the same moment without overrides, which is what A is then.
    const alone = !first.overrides.length && !first.configuration && first.at === second.at;
    const top = alone ? 20 : 1000;
    const one = (situation) => ask("/apis/v1/simulate", { ...pods, situation, top });
    const line = (situation) => answers.simulating(situation, pod, top);
    return { body: await one(second), first: alone ? null : await one(first), lines: alone ? [line(second)] : [line(first), line(second)], unused: [] };
  },
  async replay({ pod, a: first, b: second, from, to }) {
    const body = await ask("/apis/v1/replay", { from, to, overrides: second.overrides, configuration: second.configuration, limit: 50, budget: 20 });
    const unused = [first.overrides.length && "the overrides of A", first.configuration && "the plugin settings of A", pod && "the pod"];
    return { body, first: null, lines: [answers.replaying(second, { from, to })], unused: unused.filter(Boolean) };
  },
  async diff({ pod, a: first, b: second }) {
    const body = await ask("/apis/v1/diff", { from: first, to: second, limit: 50, measure: "pods" });
    const file = (situation) => `<(echo ${quoted(JSON.stringify(situation))})`;
    const line = first.overrides.length || first.configuration
      ? `topolog diff --from-situation ${file(first)} --situation ${file(second)} --limit 50 --measure pods`
      : answers.differing(first.at, second.at, second);
    return { body, first: null, lines: [line], unused: pod ? ["the pod"] : [] };
  },
};

/** A text as JSON. Throws what is not. */
function parsed(what, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} are not JSON: ${error.message}`);
  }
}

/** The situation of one side. Throws if it is not JSON, or its overrides are not a list. */
function situation(side) {
  const overrides = parsed("the overrides", side.overrides || "[]");
  if (!Array.isArray(overrides)) throw new Error("the overrides are not a list: [{\"op\": …}]");
  const configuration = parsed("the plugin settings", side.configuration || "{}");
  return { at: side.at || state.position, overrides, ...(Object.keys(configuration ?? {}).length ? { configuration } : {}) };
}

/** Ask what the form has. The address leads to the question from then on, with the moments that it was asked of. */
function submit(kind, range) {
  if (asked.busy) return;
  try {
    const question = posed(kind, range);
    set({}, { hash: links.written(question) });
    asked.of = state.hash;
    pose(question);
  } catch (error) {
    Object.assign(asked, { error: error.message, body: null });
    changed();
  }
}

/** A question. A replay is of the range from A to B: of the one above where the form names no moment. */
function posed(kind, range) {
  const [a, b] = [situation(sides.a), situation(sides.b)];
  if (kind !== "replay") return { ask: kind, pod: asked.pod, a, b };
  const [from, to] = [sides.a.at || range.from, sides.b.at || range.to];
  return { ask: kind, pod: asked.pod, from, to, a: { ...a, at: from }, b: { ...b, at: to } };
}

/** Fill in the form with what the address asks, and ask it: at a load, and where history leads to another question. */
function resume(range) {
  if (!state.position || asked.of === state.hash) return;
  Object.assign(asked, { of: state.hash, busy: "", error: "", body: null });
  if (!state.hash) return;
  try {
    const { ask: kind, pod, from, to, ...found } = links.read(state.hash, Object.keys(QUESTIONS));
    asked.pod = pod;
    for (const [name, texts] of Object.entries(found)) Object.assign(sides[name], blank(), texts);
    // Links of earlier versions have another moment in A and B.
    if (from) sides.a.at = from;
    if (to) sides.b.at = to;
    pose(posed(kind, range));
  } catch (error) {
    asked.error = error.message;
  }
}

async function pose(question) {
  const { of } = asked;
  Object.assign(asked, { busy: question.ask, error: "", body: null });
  changed();
  const found = await QUESTIONS[question.ask](question).catch((error) => ({ error: error.message }));
  // History may have led to another question meanwhile.
  if (asked.of !== of) return;
  Object.assign(asked, { busy: "", kind: question.ask, ...found });
  changed();
}

export function compare() {
  const shown = state.position ? offsetOf(state.position) : 0;
  const range = { from: state.query.get("from") ?? String(Math.max(earliest(), shown - 500)), to: state.query.get("to") ?? String(shown) };
  resume(range);
  return html`${between(range)} ${whatIf(range)} ${shadows()}`;
}

/** A moment that the address leaves out moves with the log, and so it is the placeholder of its field: what is typed stays. */
function between({ from, to }) {
  const differences = answer("diff", state.position ? `/apis/v1/diff?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}&limit=50&measure=pods` : null);
  const moments = (event) => {
    event.preventDefault();
    const { from: first, to: second } = event.target.elements;
    set({ from: first.value.trim(), to: second.value.trim() });
  };
  return panel({ id: "diff", title: "Two moments", answer: differences, wide: true, command: answers.differing(from, to), rows: answers.ROWS.diff,
    extra: html`<form class="inline" @submit=${moments}>${[["A", "from", from], ["B", "to", to]].map(([label, name, usual]) => html`<label>${label} <input name=${name} .value=${state.query.get(name) ?? ""} placeholder=${usual}></label>`)}<button>compare</button></form>` }, (body) => html`
    <p>From ${body.from} to ${body.to}: ${body.same ? "nothing differs." : nothing}</p>${contrast(body, "moments")}${sections(body)}`);
}

/** The map of the nodes that have more pods or fewer. */
function contrast(body, id) {
  if (!body.map?.nodes.length || body.same) return nothing;
  queueMicrotask(() => /** @type {any} */ (document.querySelector(`#${id} cluster-map`))?.show(body.map));
  return html`<div class="contrast" id=${id}><h3>Pods on nodes, in B compared with A</h3>
    <cluster-map id="${id}-map" @node=${onOverview} @domain=${onOverview}></cluster-map>${legend(body.map)}</div>`;
}

/** The differences of two states, a table for each kind of object; a long one is closed. */
function sections(body) {
  return Object.entries(body.sections).filter(([, found]) => found.rows.length).map(([name, found]) => html`
    <details class="section" ?open=${found.rows.length <= 8}><summary><b>${name}</b>: ${["began", "ended", "changed"].filter((change) => found[change]).map((change) => `${number(found[change])} ${change}`).join(", ")}</summary>
    ${table([["name"], ["change"], ["fields", "w"]], found.rows.map((row) => [cut(row.name, 100), row.change, fieldsOf(name, row).map((one) => html`<span class="field">${one.field}: ${cut(value(one.before), 60)} → ${cut(value(one.after), 60)}</span> `)]))}
    ${more(found.more, "rows")}</details>`);
}

/** The fields of what changed; of what began or ended only its node, for its JSON has all. */
function fieldsOf(section, row) {
  return row.change === "changed" || section === "counts" ? row.fields : row.fields.filter((one) => one.field === "node");
}

function whatIf(range) {
  const nodes = answer("a-node", moment("/apis/v1/nodes?limit=1"));
  const names = { node: nodes.body?.items[0]?.name ?? "NODE" };
  return html`<section class="panel wide" id="what-if" aria-labelledby="what-if-title"><header><h2 id="what-if-title">What if</h2></header><div class="content">
      <form class="what-if" @submit=${(event) => { event.preventDefault(); submit("simulate", range); }}>
        <div class="sides">${side("a", "A: as it is, or changed", names)} ${side("b", "B: changed", names)}</div>
        <label class="pod">Pod, NAMESPACE/NAME; empty for all that wait <input .value=${asked.pod} @input=${(event) => (asked.pod = event.target.value.trim())}></label>
        <div class="inline">
          <button aria-disabled=${asked.busy !== ""}>simulate</button>
          <button type="button" aria-disabled=${asked.busy !== ""} @click=${() => submit("replay", range)}>replay the decisions from A to B</button>
          <button type="button" aria-disabled=${asked.busy !== ""} @click=${() => submit("diff", range)}>compare the state</button></div>
      </form>
      <div role="status">${asked.busy ? html`<p class="waiting">asking …</p>` : asked.error ? html`<p class="failed">${cut(asked.error, 600)}</p>` : asked.body ? outcome(asked.kind, asked.body) : nothing}</div>
    </div></section>`;
}

/** The form of one situation. */
function side(name, title, names) {
  const one = sides[name];
  const declared = Map.groupBy((answer("overrides", "/apis/v1/overrides").body?.items ?? []).filter((each) => each.plugin), (each) => each.plugin);
  const plugins = answer("a-configuration", "/apis/v1/settings").body?.plugins ?? [];
  const begin = ({ target }) => {
    const template = TEMPLATES[target.value];
    if (template) one.overrides = JSON.stringify(template(names), null, 1);
    Object.assign(one, { form: [...declared.values()].flat().find((each) => each.op === target.value) ?? null, values: {} });
    target.value = "";
    changed();
  };
  return html`<fieldset class=${name}><legend>${title}</legend>
    <label>Moment <input class="at" .value=${one.at} placeholder=${state.position} @input=${(event) => (one.at = event.target.value.trim())}></label>
    <label>Fill in an override <select @change=${begin}><option value="">choose one …</option>${Object.keys(TEMPLATES).map((text) => html`<option value=${text}>${text}</option>`)}
      ${[...declared].map(([plugin, each]) => html`<optgroup label=${plugin}>${each.map(({ op }) => html`<option value=${op}>${op}</option>`)}</optgroup>`)}</select></label>
    ${one.form ? declaredForm(one) : nothing}
    <label>Overrides, as JSON
      <textarea rows="6" spellcheck="false" .value=${one.overrides} @input=${(event) => (one.overrides = event.target.value)}></textarea></label>
    <label>Other plugin settings, as JSON: enabled, weights, scoreMax, args
      <input class="configuration" spellcheck="false" .value=${one.configuration} placeholder=${`{"weights": {"${plugins[0] ?? "PLUGIN"}": 3}}`} @input=${(event) => (one.configuration = event.target.value)}></label></fieldset>`;
}

/** The fields of an override that a plugin declares; what is filled in becomes one more override. */
function declaredForm(one) {
  const { op, about, fields } = one.form;
  const add = (event) => {
    event.preventDefault();
    asked.error = "";
    try {
      const filled = fields.filter(({ name }) => one.values[name]?.trim()).map((field) => [field.name, filledIn(field, one.values[field.name].trim())]);
      one.overrides = JSON.stringify([...JSON.parse(one.overrides || "[]"), { op, ...Object.fromEntries(filled) }], null, 1);
      one.form = null;
    } catch (error) {
      asked.error = error.message;
    }
    changed();
  };
  return html`<div class="declared" role="group" aria-label=${op}><p>${about}</p>${fields.map(({ name, about: what, example, required }) => html`
    <label><span>${name}${required ? "" : ", optional"}: ${what}</span><input .value=${one.values[name] ?? ""} placeholder=${example}
      @input=${(event) => (one.values[name] = event.target.value)} @keydown=${(event) => event.key === "Enter" && add(event)}></label>`)}
    <button type="button" @click=${add}>add the override</button></div>`;
}

/** The value of a field as it was typed: KEY=VALUE,… of a map, parts between commas of a list. */
function filledIn(field, text) {
  const json = (found) => {
    try {
      return field.text ? found : JSON.parse(found);
    } catch {
      return found; // The server names the type that it has to be.
    }
  };
  if (field.shape === "value") return json(text);
  const parts = text.split(",").map((part) => part.trim());
  if (field.shape === "list") return parts.map(json);
  return Object.fromEntries(parts.map((part) => {
    const at = part.lastIndexOf("=");
    if (at < 1) throw new Error(`${field.name}: ${part} is not KEY=VALUE`);
    return [part.slice(0, at), json(part.slice(at + 1))];
  }));
}

function value(found) {
  return found === null ? "–" : typeof found === "string" ? found : JSON.stringify(found);
}

function outcome(kind, body) {
  const drawn = { simulate: asked.first ? (found) => both(asked.first, found) : simulated, replay: replayed, diff: (found) => html`<p>${found.same ? "Nothing differs." : nothing}</p>${contrast(found, "situations")}${sections(found)}` };
  return html`<div id="outcome">${asked.of ? nothing : html`<p class="warned">The question is too long for a link: a reload of the page loses it. The command below has all of it.</p>`}${drawn[kind](body)}
    ${asked.unused.length ? html`<p class="warned">Not used by this question: ${asked.unused.join(", ")}.</p>` : nothing}
    ${body.limits?.length ? html`<p class="limits">${body.limits.join("; ")}</p>` : nothing}
    ${asked.lines.map((line, index) => html`<div class="forms">${forms({ id: `${kind}-${index + 1}`, body: asked.first && !index ? asked.first : body, rows: answers.ROWS[kind], line })}</div>`)}</div>`;
}

/** The answers of both situations side by side, after what differs between them. */
function both(first, second) {
  const [before, after] = [placement(first), placement(second)];
  const pods = new Set([...first.placed, ...second.placed].map((one) => one.pod));
  const differ = [...pods].filter((pod) => before(pod) !== after(pod));
  const whole = [first, second].every((body) => !listed(body) && !body.left);
  const [one, other] = [counted(first), counted(second)];
  const counts = new Set([...first.counts, ...second.counts].map(({ count }) => count));
  return html`
    ${table([["pod"], ["in A"], ["in B"]], differ.slice(0, 5 * ROWS).map((pod) => [podLink(pod), before(pod), after(pod)]),
      whole ? "the same pods are placed on the same nodes" : "the pods that are listed are placed on the same nodes")}
    ${more(Math.max(0, differ.length - 5 * ROWS), "pods that differ")}
    ${counts.size ? table([["count"], ["in A", "n"], ["in B", "n"]], [...counts].map((name) => [name, one(name), other(name)])) : nothing}
    <div class="sides"><div><h3>A</h3>${simulated(first)}</div><div><h3>B</h3>${simulated(second)}</div></div>`;
}

/** How many pods an answer lists at most, if it leaves some out; otherwise 0. */
function listed({ pods, placedPods, placed, refused }) {
  return placedPods > placed.length || pods - placedPods > refused.length ? Math.max(placed.length, refused.length) : 0;
}

/** The node of a pod in an answer, or why it has none there. */
function placement(body) {
  const nodes = new Map(body.placed.map((one) => [one.pod, one.node]));
  const refused = new Set(body.refused.map((one) => one.pod));
  const most = listed(body);
  const absent = most ? `not among the first ${number(most)}` : body.left ? "not tried" : "does not wait";
  return (pod) => nodes.get(pod) ?? (refused.has(pod) ? "refused" : absent);
}

/** A count after the placements of an answer, which has those that they change. */
function counted({ counts, moreCounts }) {
  const after = new Map(counts.map((one) => [one.count, number(one.after)]));
  return (name) => after.get(name) ?? (moreCounts ? `not among the first ${number(counts.length)}` : "unchanged");
}

function simulated(body) {
  const changes = Object.entries(body.situation.events).map(([type, count]) => `${count} ${type}`).join(", ");
  return html`<p><b>${body.explanation ? (body.fits ? "It fits." : "It does not fit.") : `${number(body.placedPods)} of ${plural(body.pods, "waiting pod")} would be placed.`}</b> ${untried(body)}
      ${body.baseline ? html`Without the changes: ${body.baseline.summary}.` : nothing} ${changes ? `The overrides became ${changes}.` : ""}
      ${idle(body.situation.idle)}</p>
    ${body.explanation ? html`<p class="why">${cut(body.explanation.summary, 600)}</p>` : nothing}
    ${body.placed.length ? table([["placed"], ["node"]], body.placed.slice(0, ROWS).map((one) => [podLink(one.pod), one.node])) : nothing}
    ${more(Math.max(0, body.placedPods - ROWS), "pods that are placed")}
    ${body.refused.length ? table([["refused"], ["reason", "w"]], body.refused.slice(0, ROWS).map((one) => [podLink(one.pod), cut(one.reason, 300)])) : nothing}
    ${more(Math.max(0, body.pods - body.placedPods - ROWS), "pods that are refused")}
    ${body.counts.length ? table([["count"], ["before", "n"], ["after", "n"]], body.counts.map((one) => [one.count, number(one.before), number(one.after)])) : nothing}
    ${more(body.moreCounts, "counts")}`;
}

function replayed(body) {
  return html`<p>From ${body.from} to ${body.to}: <b>${number(body.same)} of ${plural(body.examined, "decision")} would have been the same.</b> ${unfinished(body, "The rest of the range was not compared")} ${idle(body.idle)}</p>${differing(body)}`;
}

function idle(indexes) {
  return indexes?.length ? html`<span class="failed">Overrides that change nothing: ${indexes.map((one) => one + 1).join(", ")}.</span>` : nothing;
}

/** Decisions that would have been others, by class and one by one. */
function differing(body) {
  const named = (numbers) => Object.entries(numbers).filter(([, count]) => count);
  const skipped = named(body.skipped).map(([cause, count]) => `${number(count)} ${cause}`).join(", ");
  return html`
    ${named(body.classes).length ? table([["class"], ["decisions", "n"], ["what it means", "w"]], named(body.classes).map(([name, count]) => [name, number(count), CLASSES[name] ?? ""])) : nothing}
    ${skipped ? html`<p class="warned">Not compared: ${skipped}.</p>` : nothing}
    ${body.items.length ? table([["class"], ["when", "t"], ["verb"], ["pod", "p"], ["kept", "n"], ["would keep", "n"], ["reasons then", "w"]], body.items.map((one) => [
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
  // The numbers grow with the decisions, which are not events: without a new position they are asked for again.
  if (state.at === null && listed.body?.items.length) again ||= setTimeout(refresh, 5000);
  const chosen = state.query.get("shadow");
  return html`${panel({ id: "shadows", title: "Shadows", answer: listed, wide: true, command: command("get", "shadows", "--at", state.position),
      rows: (body) => body.items.map(({ numbers, ...rest }) => ({ ...rest, ...numbers })) }, (body) =>
      table([["shadow"], ["since", "n"], ["until"], ["compared", "n"], ["same", "n"], ["others", "n"], ["by"], ["note"]], body.items.map((one) => [
        html`<a href=${address("compare", [], { shadow: one.name }) + state.hash} aria-current=${one.name === chosen}>${one.name}</a>`,
        html`<button type="button" class="at" title="show the cluster at this moment" @click=${() => show(one.since)}>${number(one.since)}</button>`,
        one.until ? `${time(one.until)}${one.ended ? ", ended" : ""}` : "–", number(one.numbers?.examined), number(one.numbers?.same),
        one.numbers ? number(one.numbers.examined - one.numbers.same) : "–", one.by, cut(one.note, 120)]),
      "no shadow is set: topolog shadow set NAME --set-policy FILE compares every decision with another policy, and enforces nothing", body.items.map((one) => one.name)))}
    ${chosen ? panel({ id: "shadow", title: `Shadow ${chosen}`, answer: answer("shadow", moment(`/apis/v1/shadows/${encodeURIComponent(chosen)}`)), wide: true,
      command: command("shadow", "show", chosen), rows: (body) => body.differences?.items ?? [] }, (body) => body.differences
      ? html`<p><b>${number(body.differences.same)} of ${plural(body.differences.examined, "decision")} would have been the same.</b> ${body.differences.gap ? html`<span class="warned">Records may have been trimmed before they were compared.</span>` : nothing}</p>
        ${body.differences.problem ? html`<p class="failed">${body.differences.problem}</p>` : nothing}${differing(body.differences)}
        <p class="limits">${body.differences.limits.join("; ")}</p>`
      : html`<p class="empty">no decision was compared yet</p>`) : nothing}`;
}
