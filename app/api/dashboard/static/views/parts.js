// @ts-check
/** What several views show: links, facts, tables. */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { repeat } from "../../vendor/lit-html-3.3.3/directives/repeat.js";
import { cut, number } from "../format.js";
import { address } from "../router.js";

export function podLink(key) {
  const [namespace, name] = key.split("/");
  return html`<a href=${address("pods", [namespace, name])}>${cut(key, 120)}</a>`;
}

export function nodeLink(name) {
  return name ? html`<a href=${address("overview", [], { node: name })}>${cut(name, 80)}</a>` : "–";
}

/** @param {[string, unknown][]} rows */
export function facts(rows) {
  return html`<dl class="facts">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function tile(label, value, kind = "", about = "") {
  return html`<div class="tile ${kind}"><span>${label}</span><b>${typeof value === "number" ? number(value) : value}</b>${about ? html`<small>${about}</small>` : nothing}</div>`;
}

/**
 * @param {[string, string?][]} heads heading and class
 * @param {unknown[][]} rows
 * @param {string[]} [keys] of the rows: a row keeps its element, and so the focus, when others come and go
 */
export function table(heads, rows, empty = "nothing", keys = rows.map((_, index) => String(index))) {
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" tabindex="0"><table><thead><tr>${heads.map(([name, kind]) => html`<th scope="col" class=${kind ?? ""}>${name}</th>`)}</tr></thead>
    <tbody>${repeat(rows, (_, index) => keys[index], (row) => html`<tr>${row.map((value, index) => html`<td class=${heads[index]?.[1] ?? ""}>${value}</td>`)}</tr>`)}</tbody></table></div>`;
}

export function more(count, what) {
  return count ? html`<p class="empty">… and ${number(count)} more ${what}</p>` : nothing;
}
