// @ts-check
/** A what-if as the part of an address after #: a browser sends that part to no server. */

/** Characters of the longest one, as the address has it. */
const MOST = 16000;

/** @typedef {{at: string, overrides: object[], configuration?: object}} Situation */

/**
 * The question with # before it; empty if it is too long for an address.
 * @param {{ask: string, pod: string, from?: string, to?: string, a: Situation, b: Situation}} question
 */
export function written({ ask, pod, from, to, a, b }) {
  const text = encodeURI(JSON.stringify({ ask, pod: pod || undefined, from, to, a: brief(a), b: brief(b) })).replaceAll("#", "%23");
  return text.length > MOST ? "" : `#${text}`;
}

function brief({ overrides, ...rest }) {
  return overrides.length ? { ...rest, overrides } : rest;
}

/**
 * What such a part fills into the form: the question, the pod, the range of a replay, and the texts of both situations;
 * what it leaves out is empty. Throws a sentence about what is wrong, and what to do.
 * @param {string} hash @param {string[]} questions that there are
 */
export function read(hash, questions) {
  try {
    const { ask, pod, from, to, a, b } = filled("it", decoded(hash.slice(1)), { ask: "", pod: "", from: "", to: "", a: {}, b: {} });
    if (!questions.includes(ask)) throw new Error(`ask is not one of ${questions.join(", ")}`);
    return { ask, pod, from, to, a: texts("a", a), b: texts("b", b) };
  } catch (error) {
    throw new Error(`The part of the address after # is not a what-if: ${error.message}. Copy the whole link again, or fill in the form: the next question replaces it.`);
  }
}

function decoded(text) {
  if (text.length > MOST) throw new Error(`it has ${text.length.toLocaleString("en")} characters, and at most ${MOST.toLocaleString("en")} are read`);
  try {
    return JSON.parse(decodeURIComponent(text));
  } catch (error) {
    throw new Error(`it is not JSON (${error.message})`);
  }
}

function texts(name, side) {
  const { at, overrides, configuration } = filled(name, side, { at: "", overrides: [], configuration: {} });
  return { at, overrides: JSON.stringify(overrides, null, 1), configuration: Object.keys(configuration).length ? JSON.stringify(configuration) : "" };
}

/** An object with the fields of a pattern, each of the type that it has there. */
function filled(name, found, pattern) {
  if (typed(found) !== "an object") throw new Error(`${name} is not an object`);
  for (const [field, value] of Object.entries(found)) {
    const path = name === "it" ? field : `${name}.${field}`;
    if (!Object.hasOwn(pattern, field)) throw new Error(`${path} is not one of ${Object.keys(pattern).join(", ")}`);
    if (typed(value) !== typed(pattern[field])) throw new Error(`${path} is not ${typed(pattern[field])}`);
  }
  return { ...pattern, ...found };
}

function typed(value) {
  if (Array.isArray(value)) return "a list";
  return typeof value === "string" ? "a text" : value !== null && typeof value === "object" ? "an object" : "another";
}
