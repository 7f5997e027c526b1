// @ts-check
/** What was answered, and what is different about a part of it? */
import { html, nothing, svg } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { announce } from "../focus.js";
import { command, panel } from "../panel.js";
import { answer, changed, moment, state } from "../store.js";
import { clock, cut, number, plural, time } from "../format.js";
import { address, set } from "../router.js";
import { newest, podLink, table } from "./parts.js";

const FILTERS = ["verb", "outcome", "plugin", "reason", "object", "namespace", "node", "pod"];
const ORDER = ["kept", "scored", "bound", "refused", "error"];
/** The column at which a selection begins: by its times, because those of a live page move on meanwhile. */
let begun = null;

/** Cancel a selection that has only begun; whether there was one. */
export function abandonSelection() {
  if (!begun) return false;
  begun = null;
  changed();
  return true;
}

/** A filter as a parameter of the API. A reason is compared whole: it may be a part of that of several policies. */
function parameter([name, value]) {
  return name === "reason" ? ["where", `reason=="${value.replace(/["\\]/g, "\\$&")}"`] : [name, value];
}

/** The same as a condition of the command. */
function condition(filter) {
  const [name, value] = parameter(filter);
  return name === "where" ? value : `${name}=${value}`;
}

export function decisions() {
  const chosen = FILTERS.map((name) => [name, state.query.get(name)]).filter(([, value]) => value);
  const filters = new URLSearchParams(chosen.map(parameter)).toString();
  const picked = new URLSearchParams(filters);
  for (const name of ["pickedSince", "pickedUntil"]) if (state.query.get(name)) picked.set(name, state.query.get(name));
  picked.set("buckets", "80");
  const none = filters ? "no decision matches" : "no decision is recorded at this moment";
  const empty = html`<p class="empty">${none}</p>`;
  const path = `/apis/v1/decisions/facets?${picked}`;
  const facets = answer("facets", moment(path), `facets ${filters}`);
  // The columns stay while a selection of them is asked about: the focus is on one.
  const selected = facets.body && !facets.url.startsWith(path) ? { ...facets, status: "loading", body: null } : facets;
  const listed = answer("decisions", moment(`/apis/v1/decisions?limit=50${filters ? `&${filters}` : ""}`), `decisions ${filters}`);
  return html`
    ${filters ? html`<p class="filters">Only ${chosen.map(([name, value]) => html`<button type="button" @click=${() => set({ [name]: null })} title="remove this filter">${name}: ${cut(value, 80)} ✕</button> `)}</p>` : nothing}
    ${panel({ id: "strip", title: "Answers over time", answer: facets, wide: true, rows: (body) => body.buckets.map(({ outcomes, ...rest }) => ({ ...rest, ...outcomes })) }, (body) => html`${newest(body.complete)}${body.examined ? strip(body, selected.body?.picked) : empty}`)}
    ${panel({ id: "facets", title: state.query.get("pickedSince") ? "What differs in the selection" : "In common", answer: selected, wide: true, rows: (body) => body.facets.flatMap((one) => one.values.map((value) => ({ facet: one.name, ...value }))) }, (body) => html`
      ${newest(body.complete)}${body.examined ? html`<div class="facets">${body.facets.filter((one) => one.values.length).map((one) => facet(one, body))}</div>` : empty}`)}
    ${panel({ id: "list", title: "Decisions, newest first", answer: listed, wide: true, rows: (body) => body.items, command: command("get", "decisions", "--limit", "50", "--at", state.position, ...chosen.flatMap((one) => ["--where", condition(one)])) }, (body) => html`${newest(body.items.length || !body.metadata.continue)}
      ${table([["when", "t"], ["verb"], ["pod", "p"], ["outcome"], ["kept", "n"], ["of", "n"], ["node", "p"], ["ms", "n"], ["reasons", "w"]], body.items.map((one) => [
        html`<a href=${address("pods", [one.pod.namespace, one.pod.name], { decision: one.id })}>${time(one.at)}</a>`, one.verb, podLink(`${one.pod.namespace}/${one.pod.name}`),
        html`<span class="outcome ${one.outcome}">${one.outcome}</span>`, number(one.kept), number(one.candidates), one.node || "–", one.milliseconds.toFixed(1), cut(Object.keys(one.reasons).join("; "), 120)]), none, body.items.map((one) => one.id))}
      ${body.items.length && body.metadata.continue ? html`<p class="empty">… and older ones</p>` : nothing}`)}`;
}

/** @param {number} [picked] the decisions in the selection, once they are counted */
function strip(body, picked) {
  const { buckets } = body;
  const most = Math.max(1, ...buckets.map((one) => Object.values(one.outcomes).reduce((sum, count) => sum + count, 0)));
  const slow = Math.max(1, ...buckets.map((one) => one.p99 ?? 0));
  const since = state.query.get("pickedSince");
  const until = state.query.get("pickedUntil");
  const inside = (one) => since && one.from >= since && (!until || one.from < until);
  const begin = (column) => {
    begun = column;
    announce(`The selection begins at ${clock(column.from)}. Escape cancels it.`);
    changed();
  };
  const up = (column) => {
    if (!begun) return;
    const [first, last] = begun.from <= column.from ? [begun, column] : [column, begun];
    begun = null;
    announce(`Selected: ${clock(first.from)} to ${clock(last.to)}`);
    set({ pickedSince: first.from, pickedUntil: last.to });
  };
  const pressed = (event, column) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    (begun ? up : begin)(column);
  };
  const started = (one) => begun && one.from <= begun.from && begun.from < one.to;
  return html`<p class="empty">${plural(body.examined, "decision")}, ${time(buckets[0].from)} to ${time(buckets.at(-1).to)}; at most ${number(most)} in a column; slowest 99th percentile ${slow.toFixed(1)} ms.
      Drag over columns, or use Enter on the first and the last one, to compare them with the rest; Escape cancels a selection that has begun.
      ${since ? html`<button type="button" @click=${() => set({ pickedSince: null, pickedUntil: null })}>end the selection (${plural(picked, "decision")})</button>` : nothing}</p>
    <svg class="strip" viewBox="0 0 ${buckets.length * 10} 100" preserveAspectRatio="none" role="group" aria-label="Decisions over time">
      ${buckets.map((one, index) => {
        let base = 100;
        const chosen = Boolean(inside(one) || started(one));
        return svg`<g class=${chosen ? "picked" : ""} tabindex="0" role="button" aria-pressed=${chosen} aria-label="${clock(one.from)}: ${Object.entries(one.outcomes).map(([name, count]) => `${count} ${name}`).join(", ") || "none"}"
            @pointerdown=${() => begin(one)} @pointerup=${() => up(one)}
            @keydown=${(event) => pressed(event, one)}>
          <title>${clock(one.from)}</title><rect class="back" x=${index * 10} y="0" width="10" height="100"></rect>
          ${chosen ? svg`<rect class="edge" x=${index * 10} y="0" width="10" height="3"></rect>` : nothing}
          ${ORDER.filter((name) => one.outcomes[name]).map((name) => {
            const height = (one.outcomes[name] / most) * 90;
            base -= height;
            return svg`<rect class="outcome ${name}" x=${index * 10 + 1} y=${base} width="8" height=${height}></rect>`;
          })}
          ${one.p99 === null ? nothing : svg`<rect class="slow" x=${index * 10 + 1} y=${100 - (one.p99 / slow) * 90} width="8" height="1.5"></rect>`}
        </g>`;
      })}</svg>
    <ul class="legend">${ORDER.map((name) => html`<li><span class="key outcome ${name}"></span>${name}</li>`)}<li><span class="key slow"></span>99th percentile of the duration</li></ul>`;
}

function facet(one, body) {
  const most = Math.max(1, ...one.values.map((value) => value.count));
  const filtered = FILTERS.includes(one.name);
  return html`<div class="facet"><h3>${one.name}</h3><ul>${one.values.slice(0, 8).map((value) => html`<li>
      ${filtered ? html`<button type="button" class="link" @click=${() => set({ [one.name]: value.value })}>${cut(value.value, 90)}</button>` : html`<span>${cut(value.value, 90)}</span>`}
      <b>${number(value.count)}</b>${body.picked ? html` <small>${number(value.picked)} of them selected</small>` : nothing}
      <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="rail" width="100" height="6"></rect><rect class="fill" width=${(value.count / most) * 100} height="6"></rect>
        ${body.picked ? svg`<rect class="part" width=${(value.picked / most) * 100} height="6"></rect>` : nothing}</svg></li>`)}</ul>
    ${one.values.length > 8 || one.more ? html`<p class="empty">… and ${number(one.values.length - 8 + one.more)} more</p>` : nothing}</div>`;
}
