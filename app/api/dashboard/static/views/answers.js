// @ts-check
/** Answers of questions as rows of a CSV file, and the commands that ask the same. */
import { command } from "../panel.js";

export const ROWS = {
  simulate: (body) => body.explanation?.scores ?? [...body.placed.map(({ pod, node }) => ({ pod, node, reason: "" })), ...body.refused.map(({ pod, reason }) => ({ pod, node: "", reason }))],
  replay: (body) => body.items,
  diff: (body) => Object.entries(body.sections).flatMap(([section, found]) => found.rows.map((row) => ({ section, name: row.name, change: row.change, fields: row.fields }))),
  fit: (body) => body.changes,
  bisect: ({ now, since, complete }) => [{ now, before: since?.before ?? "", after: since?.after ?? "", complete, ...(complete ? since?.event : {}) }],
};

function spelled({ overrides = [], configuration = undefined }) {
  return [...overrides.flatMap((one) => ["--override", JSON.stringify(one)]), ...(configuration ? ["--configuration", JSON.stringify(configuration)] : [])];
}

/** @param {{at: string, overrides: object[], configuration?: object}} situation @param {string} pod empty for all that wait */
export function simulating(situation, pod, top) {
  return command("simulate", pod || "--pending", "--at", situation.at, "--top", String(top), ...spelled(situation));
}

export function replaying(situation, { from, to }) {
  return command("replay", "--from", from, "--to", to, "--limit", "50", "--budget", "20", ...spelled(situation));
}

export function differing(from, to, situation = {}) {
  return command("diff", from, to, "--limit", "50", "--measure", "pods", ...spelled(situation));
}

export function fitting(pod, at) {
  return command("fit", pod, "--at", at);
}

export function bisecting(pod, to) {
  return command("bisect", pod, "--to", to);
}
