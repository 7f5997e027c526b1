// @ts-check
/** Answers of questions as rows of a CSV file, and the commands that ask the same. */
import { command } from "../panel.js";

export const ROWS = {
  simulate: (body) => body.explanation?.scores ?? [...body.placed.map(({ pod, node }) => ({ pod, node, reason: "" })), ...body.refused.map(({ pod, reason }) => ({ pod, node: "", reason }))],
  replay: (body) => body.items,
  diff: (body) => Object.entries(body.sections).flatMap(([section, found]) => found.rows.map((row) => ({ section, name: row.name, change: row.change, fields: row.fields }))),
  fit: (body) => body.changes,
  bisect: ({ now, since }) => [{ now, after: since?.after ?? "", ...since?.event }],
};

function spelled(overrides) {
  return overrides.flatMap((one) => ["--override", JSON.stringify(one)]);
}

/** @param {{at: string, overrides: object[]}} situation @param {string} pod empty for all that wait */
export function simulating({ at, overrides }, pod, top) {
  return command("simulate", pod || "--pending", "--at", at, "--top", String(top), ...spelled(overrides));
}

export function replaying({ overrides }, { from, to }) {
  return command("replay", "--from", from, "--to", to, "--limit", "50", "--budget", "20", ...spelled(overrides));
}

export function differing(from, to, overrides = []) {
  return command("diff", from, to, "--limit", "50", "--measure", "pods", ...spelled(overrides));
}

export function fitting(pod, at) {
  return command("fit", pod, "--at", at);
}

export function bisecting(pod, to) {
  return command("bisect", pod, "--to", to);
}
