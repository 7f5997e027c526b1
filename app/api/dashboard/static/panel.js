// @ts-check
/** A panel: a heading, its content or the sentence of its error, and the same as JSON, CSV and command. */
import { html, nothing } from "../vendor/lit-html-3.3.3/lit-html.js";
import { announce } from "./focus.js";
import { cut } from "./format.js";

/** A cell of a CSV file; one that a spreadsheet would take for a formula is quoted as text. */
export function cell(value) {
  let text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {object[]} rows */
export function csv(rows) {
  const heads = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [heads, ...rows.map((row) => heads.map((head) => row[head]))].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** A word, quoted as a shell needs it. */
export function quoted(word) {
  return /^[\w@%+:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The command line of words. */
export function command(...words) {
  return ["topolog", ...words].map(quoted).join(" ");
}

async function copy(event, text) {
  const button = event.currentTarget;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    button.textContent = "select the text to copy it";
  }
  announce(button.textContent);
  setTimeout(() => (button.textContent = "copy"), 1500);
}

/**
 * What is shown as JSON, as CSV, and as the command that prints it. The answer of a question has no address: its JSON is saved.
 * @param {{id: string, body: any, path?: string, rows?: (body: any) => object[], line: string}} about
 */
export function forms({ id, body, path = "", rows, line }) {
  return html`
    ${path
      ? html`<a href=${path} target="_blank" rel="noopener">as JSON</a>`
      : html`<button type="button" @click=${() => download(`${id}.json`, "application/json", JSON.stringify(body, null, 1))}>as JSON</button>`}
    ${rows && body ? html`<button type="button" @click=${() => download(`${id}.csv`, "text/csv", csv(rows(body)))}>as CSV</button>` : nothing}
    <span class="command"><code>${line}</code>
      <button type="button" @click=${(event) => copy(event, line)}>copy</button></span>`;
}

/**
 * @param {{id: string, title: string, answer: import("./store.js").Answer, rows?: (body: any) => object[],
 *   command?: string, wide?: boolean, extra?: unknown}} about
 * @param {(body: any) => unknown} draw
 */
export function panel(about, draw) {
  const { id, title, answer } = about;
  const path = answer.url;
  const line = about.command ?? (path ? command("get", "--raw", path) : "");
  return html`<section class="panel ${about.wide ? "wide" : ""}" id=${id} aria-labelledby="${id}-title" aria-busy=${answer.status === "loading"}>
    <header>
      <h2 id="${id}-title">${title}</h2>
      ${about.extra ?? nothing}
      ${path
        ? html`<details class="as"><summary aria-label="${title}: data and command">data</summary>
            <div class="menu">${forms({ id, body: answer.body, path, rows: about.rows, line })}</div></details>`
        : nothing}
    </header>
    <div class="content">
      ${answer.status === "failed"
        ? html`<p class="failed" role="status">${cut(answer.error, 600)}</p>`
        : answer.body
          ? draw(answer.body)
          : html`<p class="waiting">loading …</p>`}
    </div>
  </section>`;
}

/** A share as a bar, with the number beside it. */
export function bar(share, kind = "") {
  const width = Math.max(0, Math.min(1, share ?? 0)) * 100;
  return html`<svg class="bar ${kind}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect class="rail" width="100" height="6"></rect><rect class="fill" width=${width} height="6"></rect></svg>`;
}
