// @ts-check
/** The answers that are about the process and the store, not about a moment. */
import { answer, forget, state } from "../store.js";
import { moving } from "../timebar.js";

const NAMES = ["lag", "consistency", "store"];
/** Milliseconds after which the next drawing asks for them again: the stream of a live page has one at least every 15 seconds. */
const EVERY = 10_000;
let asked = "";

/** The answers by name, asked for again at another moment and once they are old. */
export function present() {
  const due = `${state.position} ${Math.floor(performance.now() / EVERY)}`;
  if (asked !== due && !moving()) {
    asked = due;
    for (const name of NAMES) forget(name);
  }
  return Object.fromEntries(NAMES.map((name) => [name, answer(name, state.position ? `/apis/v1/${name}` : null)]));
}
