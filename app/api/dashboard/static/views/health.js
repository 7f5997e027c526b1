// @ts-check
/** Can what is shown be trusted? */
import { html, nothing } from "../../vendor/lit-html-3.3.3/lit-html.js";
import { command, panel } from "../panel.js";
import { answer, earliest, moment, offsetOf, state } from "../store.js";
import { cut, number, span, time } from "../format.js";
import { to } from "../timebar.js";
import { facts, more, table } from "./parts.js";
import { present } from "./present.js";

/** Rows of marks. */
const MARKS = 12;

export function health() {
  const { lag, consistency, store } = present();
  const settings = answer("settings", "/apis/v1/settings");
  const flags = answer("flags", moment("/apis/v1/flags"));
  const last = state.position ? offsetOf(state.position) : 0;
  const axis = answer("gaps", state.position ? `/apis/v1/moments?from=${Math.max(earliest(), last - 5000)}&to=${encodeURIComponent(state.position)}&buckets=1` : null);
  return html`<div class="columns even">
    ${panel({ id: "consistency", title: "Consistency", answer: consistency, command: command("get", "consistency"), rows: (body) => body.differences }, (body) => html`
      <p class=${body.total ? "failed" : "why"}>${body.state}${body.problem ? `: ${body.problem}` : ""}</p>
      ${facts([["compared at", body.position || "never"], ["age", body.age < 0 ? "–" : span(body.age)], ["by", body.by || "–"], ["open differences", number(body.total)], ["passes over the log", number(body.passes)]])}
      ${body.differences.length ? table([["kind"], ["object"], ["expected"], ["found"], ["writer"], ["run"]], body.differences.map((one) => [one.kind, cut(one.key, 80), cut(one.expected, 60), cut(one.found, 60), one.writer, one.run])) : nothing}
      <h3>Repairs</h3>
      ${table([["offset", "n"], ["when"], ["what"], ["reason"]], body.repairs.map((one) => [jump(one.offset), time(one.at), one.what, cut(one.reason, 120)]), "nothing was repaired")}`)}
    <div class="side">
      ${panel({ id: "lag", title: "This process", answer: lag, command: command("get", "lag"), rows: (body) => [body] }, (body) => facts([
        ["position", body.position], ["behind the log", `${number(body.behind)} events, ${body.seconds} s`], ["error", body.error ?? "none"], ["decision records dropped", number(body.decisionsDropped)], ["you are", body.identity], ["version", body.version]]))}
      ${panel({ id: "store", title: "Store and its readers", answer: store, rows: (body) => body.readers }, (body) => html`
        <p class=${body.problem ? "finding" : "why"}>${body.problem || "no finding: it keeps what it acknowledged"}</p>
        ${facts([["recorder", body.recorder || "–"], ["last wrote", body.recorded ? time(body.recorded) : "never"]])}
        ${table([["reader", "p"], ["offset", "n"], ["behind", "n"], ["reported"]], body.readers.map((one) => [cut(one.reader, 80), number(one.offset), number(one.behind), time(one.at)]), "no process follows the log")}`)}
      ${panel({ id: "gaps", title: "Marks and gaps of the last 5,000 events", answer: axis, rows: (body) => [...body.marks, ...body.gaps] }, (body) => html`
        ${table([["from", "n"], ["to", "n"], ["not watched"]], body.gaps.map((one) => [jump(one.from), jump(one.to), cut(one.reason, 160)]), "every change of this window was watched")}
        ${table([["offset", "n"], ["when"], ["what"]], body.marks.slice(-MARKS).reverse().map((one) => [jump(one.offset), time(one.at), cut(one.text, 120)]), "no marks")}
        ${more(Math.max(0, body.marks.length - MARKS) + body.moreMarks, "marks")}`)}
      ${panel({ id: "flags", title: "Debug flags", answer: flags, command: command("get", "flags", "--at", state.position), rows: (body) => body.items }, (body) => table([["flag"], ["value"], ["at start"], ["pod"], ["until"], ["set by"], ["at"]], body.items.map((one) => [one.title, one.value, one.default, one.pod || "all", time(one.until), one.by || "–", one.changed ? html`${jump(one.changed)} ${one.at ? time(one.at) : ""}` : "–"])))}
      ${panel({ id: "settings", title: "Settings", answer: settings, rows: (body) => Object.entries(body.settings).map(([name, value]) => ({ name, value })) }, (body) => html`
        ${facts([["configuration", body.configuration], ["plugins", body.plugins.join(", ")], ["weights", Object.entries(body.weights).map(([name, weight]) => `${name} ${weight}`).join(", ") || "all 1"]])}
        <details><summary>all settings</summary>${table([["name"], ["value"]], Object.entries(body.settings).map(([name, found]) => [name, cut(typeof found === "string" ? found : JSON.stringify(found), 120)]))}</details>`)}
    </div></div>`;
}

function jump(offset) {
  return html`<button type="button" class="at" title="show the cluster at this moment" @click=${() => to(offset)}>${number(offset)}</button>`;
}
