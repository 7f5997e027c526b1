// @ts-check
/** What several views show: links, facts, tables. */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { repeat } from "../../vendor/lit-html-3.3.3/directives/repeat.js";
import { cut, number, plural } from "../format.js";
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

/** What an answer leaves out because its time ended; ``missing`` names it. */
export function unfinished({ complete }, missing) {
  return complete ? nothing : html`<span class="warned">${missing} in the time.</span>`;
}

/** The pods that an answer of simulate leaves out. */
export function untried({ left }) {
  return unfinished({ complete: !left }, `${plural(left, "pod was", "pods were")} not tried`);
}

/** That an answer about decisions leaves the older ones out. */
export function newest(complete) {
  return complete ? nothing : html`<p class="empty">only the newest records were read: older decisions are left out</p>`;
}

/** Any object of the API: values as facts, lists of objects as tables. */
export function whole(body, most = 20) {
  const entries = Object.entries(body);
  const plain = entries.filter(([, value]) => value === null || typeof value !== "object");
  const lists = entries.filter(([, value]) => Array.isArray(value) && value.length);
  const nested = entries.filter(([, value]) => value && typeof value === "object" && !Array.isArray(value));
  return html`${facts(plain.filter(([, value]) => value !== "" && value !== null).map(([name, value]) => [name, cut(word(value), 300)]))}
    ${lists.map(([name, values]) => html`<h3>${name}</h3>${listed(values.slice(0, most))}${more(Math.max(0, values.length - most), name)}`)}
    ${nested.map(([name, value]) => html`<h3>${name}</h3>${whole(value, most)}`)}`;
}

function listed(values) {
  if (values.some((value) => value === null || typeof value !== "object")) return html`<p class="values">${values.map(word).join(", ")}</p>`;
  const heads = [...new Set(values.flatMap((value) => Object.keys(value)))];
  return table(heads.map((name) => [name, values.every((value) => typeof value[name] === "number") ? "n" : ""]), values.map((value) => heads.map((name) => linked(name, value[name]))));
}

function linked(name, value) {
  if (name === "pod" && typeof value === "string") return podLink(value);
  if (name === "node" && typeof value === "string") return nodeLink(value);
  return Array.isArray(value) ? value.map(word).join("/") || "–" : word(value);
}

/** A value as text: numbers with separators, yes and no; of an object its fields, such as cpu 2, memory 4Gi. */
export function word(value) {
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value === null || value === undefined || value === "") return "–";
  if (Array.isArray(value)) return value.map(word).join(", ") || "–";
  if (typeof value !== "object") return value;
  return Object.entries(value).map(([name, one]) => `${name} ${word(one)}`).join(", ") || "–";
}
