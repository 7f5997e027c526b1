// @ts-check
/** What is in a domain, which is a box of the map. */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { announce } from "../focus.js";
import { UNLABELLED, valuesOf } from "../map.js";
import { bar, command, panel } from "../panel.js";
import { answer, moment, state } from "../store.js";
import { number, plural } from "../format.js";
import { address, go } from "../router.js";
import { facts, more, nodeLink, table } from "./parts.js";

/** Domains of one answer: the domain itself, and those inside it. */
const READ = 50;
/** Rows of nodes. */
const ROWS = 20;

/** The address of the domain with these values, from the widest on, beside the same map. */
export function href(values) {
  const kept = ["color", "levels", "as"].map((name) => [name, state.query.get(name)]);
  return address("overview", [], { ...Object.fromEntries(kept), domain: values.join(",") });
}

/** Show what was chosen on a map of another view: the node or the domain, on the Overview. */
export function onOverview(event) {
  go(event.type === "domain" ? href(event.detail) : address("overview", [], { node: event.detail }));
}

/** @param {string[]} values from the widest on @param {any} picture the map that has it @param {() => void} close */
export function drawer(values, picture, close) {
  const [levels, within] = [picture.levels.join(","), values.join(",")];
  const found = answer("domain", moment(`/apis/v1/topology?levels=${encodeURIComponent(levels)}&within=${encodeURIComponent(within)}&limit=${READ}`), within);
  const one = found.body && innermost(found.body, values);
  const title = `Domain ${values.map(named).join(" / ")}`;
  if (one) announce(`${title}: ${plural(one.nodes, "node")}, ${number(one.ready)} ready, ${plural(one.pods, "pod")}`, "node");
  return panel({ id: "domain", title, answer: found, rows: (body) => innermost(body, values)?.domains ?? [],
    command: command("get", "topology", "--where", `levels=${levels}`, "--where", `within=${within}`, "--limit", String(READ), "--at", state.position),
    extra: html`<button type="button" aria-label="close the domain" @click=${close}>close</button>` },
  (body) => shown(innermost(body, values), values, picture, body.metadata));
}

/** The value of a domain as text. */
function named(value) {
  return value === UNLABELLED ? "no label" : value;
}

/** The domain that the answer is about, inside those around it; undefined if no node has its labels. */
function innermost(body, values) {
  return values.slice(1).reduce((one) => one?.domains[0], body.items[0]);
}

function shown(one, values, picture, metadata) {
  if (!one || one.value !== (values.at(-1) === UNLABELLED ? "" : values.at(-1))) return html`<p class="empty">no node has these labels at this moment</p>`;
  const names = nodes(values, picture);
  return html`
    ${facts([
      ...values.slice(0, -1).map((value, depth) => [picture.levels[depth], html`<a href=${href(values.slice(0, depth + 1))}>${named(value)}</a>`]),
      [one.key, named(values.at(-1))], ["nodes", number(one.nodes)], ["ready and not cordoned", number(one.ready)], ["pods", number(one.pods)],
    ])}
    ${one.counts.length ? html`<h3>Quotas</h3>${table([["quota"], ["placed", "n"], ["", "barred"]], one.counts.map(({ policy, placed, desired }) => [
      html`<a href=${address("workloads", [], { of: policy })}>${policy}</a>`, desired === null ? number(placed) : `${number(placed)} of ${number(desired)}`,
      desired === null ? nothing : bar(desired ? placed / desired : 1, placed > desired ? "over" : placed === desired ? "full" : "")]))}` : nothing}
    ${one.domains.length ? html`<h3>Domains inside</h3>${table([["domain"], ["nodes", "n"], ["ready", "n"], ["pods", "n"]], one.domains.map((inner) => [
      html`<a href=${href([...values, inner.value])}>${inner.value}</a>`, number(inner.nodes), number(inner.ready), number(inner.pods)]))}
      ${metadata.continue ? html`<p class="empty">… and more</p>` : nothing}` : nothing}
    <h3>Nodes</h3>
    <p class="values">${names.slice(0, ROWS).map((name, index) => html`${index ? ", " : ""}${nodeLink(name)}`)}</p>
    ${more(Math.max(0, names.length - ROWS), "nodes")}`;
}

/** The names of its nodes, as the map has them. */
function nodes(values, picture) {
  const { nodes: names, domains } = picture;
  const index = domains.findIndex((_, at) => valuesOf(domains, at).join(",") === values.join(","));
  return index < 0 ? [] : names.slice(domains[index][2], domains[index][2] + domains[index][3]);
}
