// @ts-check
/** Numbers and times as text. */
import { state } from "./store.js";

const numbers = new Intl.NumberFormat("en");
const rounded = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const small = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const UNITS = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50 };

export function number(value) {
  return value === null || value === undefined ? "–" : numbers.format(value);
}

/** A quantity of Kubernetes, rounded: 6992500m is 6,992.5, 11952448Mi is 11.4Ti, and 25m is 0.025. */
export function quantity(text) {
  const found = /^(-?\d+(?:\.\d+)?)(m|[kMGTP]|[KMGTP]i)?$/.exec(String(text));
  if (!found) return String(text);
  const value = Number(found[1]) * (UNITS[found[2]] ?? 1);
  const unit = found[2]?.endsWith("i") ? ["Pi", "Ti", "Gi", "Mi", "Ki"].find((one) => Math.abs(value) >= UNITS[one]) : "";
  const amount = value / (UNITS[unit] ?? 1);
  return (Math.abs(amount) < 10 ? small : rounded).format(amount) + (unit ?? "");
}

const DAY = { hour12: false, year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const CLOCK = { hour12: false, hour: "2-digit", minute: "2-digit", second: "2-digit" };
/** Formats by zone: making one takes longer than all else that is drawn while the slider is dragged. */
const days = { local: new Intl.DateTimeFormat("en-GB", DAY), utc: new Intl.DateTimeFormat("en-GB", { ...DAY, timeZone: "UTC" }) };
const clocks = { local: new Intl.DateTimeFormat("en-GB", CLOCK), utc: new Intl.DateTimeFormat("en-GB", { ...CLOCK, timeZone: "UTC" }) };

export function time(text) {
  if (!text) return "–";
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return String(text);
  return state.utc ? `${days.utc.format(at)} UTC` : days.local.format(at);
}

export function clock(text) {
  return text ? clocks[state.utc ? "utc" : "local"].format(new Date(text)) : "–";
}

/** With a zone; one that is unknown makes the whole time invalid. */
const ZONED = /(?:(?<![A-Z])(?![AP]M$)[A-Z]{1,5}|:\d\d(?:\.\d+)?\s*[+-]\d\d:?\d\d)$/i;
const DATE = /^\d{4}-\d\d-\d\d$/;

/** The time that a typed text means, in the zone of the page if it names none; a clock time is of today. */
export function typed(text) {
  const now = new Date();
  const today = state.utc ? now.toUTCString().slice(0, 16) : now.toDateString();
  // A date in this form alone would be of UTC.
  const whole = /^\d{1,2}:/.test(text) ? `${today} ${text}` : DATE.test(text) ? `${text} 00:00` : text;
  // No name of a zone may follow a time behind a T.
  return new Date(state.utc && !ZONED.test(text) ? `${whole.replace(/^(\d{4}-\d\d-\d\d)T/, "$1 ")} UTC` : whole);
}

/** A span of seconds, in its two largest units. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([size]) => whole >= size);
  if (at < 0) return "0 s";
  const [size, unit] = parts[at];
  const rest = whole % size;
  const next = parts[at + 1];
  const more = next && rest >= next[0] ? ` ${Math.floor(rest / next[0])} ${next[1]}` : "";
  return `${Math.floor(whole / size)} ${unit}${more}`;
}

/** The seconds from one time to another. */
export function between(from, to) {
  return (new Date(to).getTime() - new Date(from).getTime()) / 1000;
}

/** The present time; in a bundle it stands still. */
export function now() {
  return state.bundle?.clock ? new Date(state.bundle.clock) : new Date();
}

/** How long ago it was: at the moment shown, which in a live page, and at the end of a bundle, is now. */
export function ago(from, asOf) {
  const present = state.at === null || (state.bundle && state.position === state.head);
  return span(between(from, present ? now() : asOf));
}

/** Text that is too long is cut, and its length is stated. */
export function cut(text, most = 300) {
  const whole = String(text ?? "");
  return whole.length <= most ? whole : `${whole.slice(0, most)} … (${numbers.format(whole.length)} characters)`;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}
