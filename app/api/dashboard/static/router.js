// @ts-check
/** The address of the page: view, object and moment. Every state that matters has one. */
import * as focus from "./focus.js";
import { changed, state } from "./store.js";

const VIEWS = ["overview", "pending", "pods", "workloads", "decisions", "compare", "health"];

export function read() {
  const parts = location.pathname.replace(/^\/dashboard\/?/, "").split("/").filter(Boolean).map(decoded);
  state.view = VIEWS.includes(parts[0]) ? parts[0] : "overview";
  state.path = parts.slice(1);
  state.query = new URLSearchParams(location.search);
  state.at = state.query.get("at");
  state.hash = location.hash;
}

/** A part of the path; as it is if it is malformed, such as %zz: no object has that name, which its view states. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a view at the shown moment. */
export function address(view, path = [], more = {}) {
  const query = new URLSearchParams();
  if (state.at !== null) query.set("at", state.at);
  for (const [name, value] of Object.entries(more)) if (value !== null && value !== undefined && value !== "") query.set(name, value);
  const steps = view === "overview" ? [] : [view, ...path];
  const text = query.toString();
  return `/dashboard/${steps.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** How many addresses of this page lie behind the present one. */
let deep = 0;

/** Set parameters of the present address, and what stands after #, which stays otherwise; null removes one. */
export function set(more, { replace = false, hash = location.hash } = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(more)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(`${location.pathname}${text ? `?${text}` : ""}${hash}`, { replace });
}

export function go(target, { replace = false } = {}) {
  if (target === location.pathname + location.search + location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", target);
  deep += replace ? 0 : 1;
  read();
  dispatchEvent(new Event("moved"));
  changed();
}

/** Back to where an object was opened from, if that was on this page; whether it was. */
export function back() {
  if (!state.path.length || !deep) return false;
  history.back();
  return true;
}

/** Links inside the dashboard move without a load. */
export function install() {
  let shown = location.pathname;
  addEventListener("popstate", () => {
    deep = Math.max(0, deep - 1);
    if (shown !== location.pathname) focus.returned(shown);
    shown = location.pathname;
    read();
    dispatchEvent(new Event("moved"));
    changed();
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || event.defaultPrevented || link.target || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith("/dashboard/")) return;
    event.preventDefault();
    const another = url.pathname !== location.pathname;
    go(url.pathname + url.search + url.hash);
    shown = location.pathname;
    // Of the same view the link stays where it is.
    if (!another) return;
    document.querySelector("main")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  });
}
