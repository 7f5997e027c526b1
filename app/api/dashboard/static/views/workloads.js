// @ts-check
/** How is a quota used, over time? */
import { html, nothing, svg } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { draw, inks } from "../chart.js";
import { bar as share, panel } from "../panel.js";
import { answer, earliest, moment, offsetOf, state } from "../store.js";
import { number, plural } from "../format.js";
import { address } from "../router.js";
import { bar } from "../timebar.js";
import { more, table } from "./parts.js";

export function workloads() {
  const cluster = answer("workloads", moment("/apis/v1/cluster?limit=1000"));
  const of = state.query.get("of") ?? cluster.body?.quotas[0]?.of ?? null;
  return html`<div class="columns even">
    ${panel({ id: "quotas", title: "Quotas", answer: cluster, rows: (body) => body.quotas }, (body) => {
      const held = new Map();
      for (const one of body.quotas) held.set(one.of, [...(held.get(one.of) ?? []), one]);
      return html`${table([["object"], ["domains", "n"], ["placed", "n"], ["desired", "n"], ["", "barred"]], [...held].map(([name, rows]) => {
        const placed = rows.reduce((sum, one) => sum + one.placed, 0);
        const desired = rows.reduce((sum, one) => sum + (one.desired ?? 0), 0);
        const over = rows.some((one) => one.desired !== null && one.placed > one.desired);
        return [html`<a href=${address("workloads", [], { of: name })} aria-current=${name === of}>${name}</a>`, number(rows.length), number(placed), number(desired), share(desired ? placed / desired : 0, over ? "over" : placed === desired ? "full" : "")];
      }), "no object sets a quota at this moment")} ${more(body.moreQuotas, "quotas")}`;
    })}
    ${of ? one(of, cluster) : nothing}</div>`;
}

function one(of, cluster) {
  const last = state.position ? offsetOf(state.position) : 0;
  const path = state.position ? `/apis/v1/series?of=${encodeURIComponent(`quota:${of}`)}&from=${Math.max(earliest(), last - Math.min(bar.width, 20000))}&to=${encodeURIComponent(state.position)}&points=400` : null;
  const series = answer("series", path);
  const rows = (cluster.body?.quotas ?? []).filter((row) => row.of === of);
  return html`<div class="side">
    ${panel({ id: "domains", title: of, answer: cluster, rows: () => rows }, () => html`
      ${table([["domain"], ["placed", "n"], ["desired", "n"], ["", "barred"]], rows.map((row) => [`${row.key}=${row.value}`, number(row.placed), number(row.desired),
        share(row.desired ? row.placed / row.desired : 0, row.desired !== null && row.placed > row.desired ? "over" : row.placed === row.desired ? "full" : "")]), "it counts nothing at this moment")}
      <p><a href=${address("overview", [], { color: `quota:${of}` })}>on the map</a></p>`)}
    ${panel({ id: "over-time", title: "Over time", answer: series, rows: (body) => body.lines.flatMap((line) => line.points.map(([offset, at, value]) => ({ line: line.name, offset, at: new Date(at).toISOString(), value }))) }, (body) => {
      draw("chart", body.lines, body.metadata.last);
      const colours = inks(body.lines);
      const key = (line, index) => html`<svg class="ink ink-${colours[index]}" viewBox="0 0 20 6" aria-hidden="true">${svg`<line x1="0" x2="20" y1="3" y2="3" class=${line.name.endsWith(" desired") ? "dashed" : ""}></line>`}</svg> ${line.name}`;
      return html`<step-chart id="chart" role="img" aria-label="Steps of ${plural(body.lines.length, "line")}; the table has the latest values"></step-chart>
        ${table([["line"], ["steps", "n"], ["latest", "n"]], body.lines.map((line, index) => [key(line, index), number(line.points.length), number(line.points.at(-1)?.[2])]), "nothing was counted in this window")}`;
    })}</div>`;
}
