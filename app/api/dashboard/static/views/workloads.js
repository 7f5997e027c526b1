// @ts-check
/** How are quotas, gangs and other objects of plugins used, over time? */
import { html, nothing, svg } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { dashed, draw, inks, shaded } from "../chart.js";
import { bar as share, command, panel } from "../panel.js";
import { answer, incarnationOf, moment, state } from "../store.js";
import { cut, number, plural, time } from "../format.js";
import { address } from "../router.js";
import { shownOffset, stretch, to as show } from "../timebar.js";
import { more, table, whole, word } from "./parts.js";

/** Events of which a chart shows the steps at most. */
const EVENTS = 20000;
/** Quotas of domains that one answer has at most. */
const QUOTAS = 1000;
/** Changes of an object that are listed. */
const ROWS = 10;

export function workloads() {
  const cluster = answer("workloads", moment(`/apis/v1/cluster?limit=${QUOTAS}`));
  const kinds = (cluster.body?.workloads ?? []).map((kind) => ({ ...kind, listed: answer(`all-${kind.kind}`, moment(`${kind.path}?limit=500`)) }));
  const [chosen, of] = choice(cluster.body, kinds);
  return html`<div class="columns even">
    <div class="side">${quotas(cluster, chosen ? null : of)} ${kinds.map((kind) => objects(kind, kind === chosen ? of : null))}</div>
    ${of === null ? nothing : chosen ? followed(chosen, of, cluster) : quota(of, cluster)}</div>`;
}

/** The kind and the object of the address; the first that there is without one. A quota has no kind. Both are null until the kinds are known. */
function choice(body, kinds) {
  if (!body) return [null, null];
  const asked = state.query.get("of");
  if (asked !== null) {
    const [name, ...rest] = asked.split(":");
    const kind = kinds.find((one) => one.kind === name);
    return kind ? [kind, rest.join(":")] : [null, asked];
  }
  if (body.quotas.length) return [null, body.quotas[0].of];
  const kind = kinds.find((one) => one.listed.body?.items.length);
  return kind ? [kind, named(kind.listed.body.items[0], kind.name)] : [null, null];
}

function quotas(cluster, chosen) {
  return panel({ id: "quotas", title: "Quotas", answer: cluster, rows: (body) => body.quotas }, (body) => {
    const held = new Map();
    for (const one of body.quotas) held.set(one.of, [...(held.get(one.of) ?? []), one]);
    return html`${table([["object"], ["domains", "n"], ["placed", "n"], ["desired", "n"], ["without a quota", "n"], ["", "barred"]], [...held].map(([name, rows]) => [
      html`<a href=${address("workloads", [], { of: name })} aria-current=${name === chosen}>${name}</a>`, number(rows.length), ...summed(rows)]), "no object sets a quota at this moment")}
      ${more(body.moreQuotas, "quotas")} ${body.moreQuotas ? html`<p class="warned">Only the quotas that are nearest to full are added up here: the page of an object has all of its domains.</p>` : nothing}`;
  });
}

/**
 * Cells about the domains of an object: the pods placed and desired where there is a quota, those placed where there is none,
 * and a bar, which is full once each domain with a quota is.
 */
function summed(rows) {
  const total = (some, of) => some.reduce((sum, one) => sum + of(one), 0);
  const placed = (one) => one.placed;
  const limited = rows.filter((one) => one.desired !== null);
  const free = rows.filter((one) => one.desired === null);
  const desired = total(limited, (one) => one.desired);
  const used = total(limited, (one) => Math.min(one.placed, one.desired));
  const kind = limited.some((one) => one.placed > one.desired) ? "over" : limited.length && used === desired ? "full" : "";
  return [number(limited.length ? total(limited, placed) : null), number(limited.length ? desired : null), number(free.length ? total(free, placed) : null),
    share(desired ? used / desired : 0, kind)];
}

/** The value of a field, or of two, as `namespace+name` is NAMESPACE/NAME. */
function named(item, field) {
  return field.split("+").map((one) => item[one]).join("/");
}

/** The objects of a plugin, with the columns of `topolog get`. */
function objects({ kind, title, listed, name, columns }, chosen) {
  return panel({ id: `all-${kind}`, title: `${title[0].toUpperCase()}${title.slice(1)}`, answer: listed, rows: (body) => body.items }, (body) => {
    const heads = columns.map(({ heading, field }) => [heading.toLowerCase(), body.items.every((one) => typeof one[field] === "number") ? "n" : ""]);
    return html`${table(heads, body.items.map((one) => columns.map(({ field }, index) => index
      ? cut(word(one[field]), 120)
      : html`<a href=${address("workloads", [], { of: `${kind}:${named(one, name)}` })} aria-current=${named(one, name) === chosen}>${named(one, field)}</a>`)), `there are no ${title} at this moment`)}
      ${more(body.metadata.remaining, title)}`;
  });
}

/** The domains of an object; it is asked about alone where the answer about all objects may lack some. */
function quota(of, cluster) {
  const found = cluster.body?.moreQuotas ? answer("quota", moment(`/apis/v1/cluster?limit=${QUOTAS}&of=${encodeURIComponent(of)}`), of) : cluster;
  const rows = (found.body?.quotas ?? []).filter((row) => row.of === of);
  return html`<div class="side">
    ${panel({ id: "domains", title: of, answer: found, rows: () => rows }, (body) => html`
      ${table([["domain"], ["placed", "n"], ["desired", "n"], ["", "barred"]], rows.map((row) => [`${row.key}=${row.value}`, number(row.placed), number(row.desired),
        share(row.desired ? row.placed / row.desired : 0, row.desired !== null && row.placed > row.desired ? "over" : row.placed === row.desired ? "full" : "")]), "it counts nothing at this moment")} ${more(body.moreQuotas, "domains")}
      <p><a href=${address("overview", [], { color: `quota:${of}` })}>on the map</a></p>`)}
    ${overTime(`quota:${of}`)}</div>`;
}

function followed({ kind, path }, of, cluster) {
  const one = answer(`one-${kind}`, moment(`${path}/${of.split("/").map(encodeURIComponent).join("/")}`));
  return html`<div class="side">
    ${overTime(`${kind}:${of}`)}
    ${panel({ id: "object", title: `${kind} ${of}`, answer: one, rows: (body) => body.seats ?? [body] }, (body) => html`${whole(body)}
      ${cluster.body?.colours.includes(`${kind}:${of}`) ? html`<p><a href=${address("overview", [], { color: `${kind}:${of}` })}>on the map</a></p>` : nothing}`)}</div>`;
}

function overTime(of) {
  const { first, last } = stretch(EVENTS);
  const to = encodeURIComponent(`${incarnationOf(state.position)}/${last}`);
  const path = state.position ? `/apis/v1/series?of=${encodeURIComponent(of)}&from=${first}&to=${to}&points=400` : null;
  const shown = shownOffset();
  const series = answer("series", path, of);
  return panel({ id: "over-time", title: "Over time", answer: series, command: path ? command("get", "--raw", path) : "",
    rows: (body) => body.lines.flatMap((line) => line.points.map(([offset, at, value]) => ({ line: line.name, offset, at: at ? new Date(at).toISOString() : "", value }))) }, (body) => {
    draw("chart", body, state.at === null ? null : shown);
    const colours = inks(body.lines);
    const key = (line, index) => html`<svg class="ink ink-${colours[index]}" viewBox="0 0 20 6" aria-hidden="true">${shaded(line) ? svg`<rect width="20" height="6"></rect>` : svg`<line x1="0" x2="20" y1="3" y2="3" class=${dashed(line) ? "dashed" : ""}></line>`}</svg> ${line.name}`;
    return html`<step-chart id="chart" role="img" aria-label="Steps of ${plural(body.lines.length, "line")}; the table has the values at the moment shown"></step-chart>
      ${table([["line"], ["steps", "n"], ["at the moment", "n"]], body.lines.map((line, index) => [key(line, index), number(line.points.length), number(line.points.findLast(([offset]) => offset <= shown)?.[2])]), "nothing was counted in this window")}
      ${body.marks.length ? html`<div id="changes"><h3>Changes of the object</h3>${table([["offset", "n"], ["when", "t"], ["change", "w"]], body.marks.slice(-ROWS).reverse().map(([offset, at, change]) => [
        html`<button type="button" class="at" title="show the cluster at this moment" @click=${() => show(offset)}>${number(offset)}</button>`, time(new Date(at).toISOString()), change]))}
        ${more(Math.max(0, body.marks.length - ROWS), "changes")}</div>` : nothing}`;
  });
}
