// @ts-check
/** The focus is never lost, Escape leads back to where it came from, and what changes elsewhere is announced. */

const announced = new Map();
/** @type {HTMLElement|null} The element that had the focus before a shortcut moved it. */
let origin = null;
/** The page that was left by going back: the link that leads there gets the focus. */
let left = "";

/**
 * Have a screen reader speak a text. One of a source is spoken once, as often as it is drawn.
 * @param {string} text @param {string} [source]
 */
export function announce(text, source = "") {
  if (source && announced.get(source) === text) return;
  announced.set(source, text);
  const region = document.getElementById("announced");
  if (region) region.textContent = text;
}

/** Another object is shown: what was announced of the one before no longer holds. */
export function silence() {
  announced.clear();
  announce("");
}

/** Draw; if that removes what has the focus, the nearest place around it that can take it does. */
export function kept(draw) {
  const around = [];
  for (let one = document.activeElement; one && one !== document.body; one = one.parentElement) around.push(one);
  draw();
  if (around.length && !around[0].isConnected) {
    const place = around.find((one) => one.isConnected && one.matches("[tabindex]")) ?? document.getElementById("main");
    /** @type {HTMLElement} */ (place)?.focus();
  }
  const link = left && [...document.querySelectorAll("main a")].find((one) => /** @type {HTMLAnchorElement} */ (one).pathname === left && one.checkVisibility({ contentVisibilityAuto: true }));
  if (link) {
    left = "";
    /** @type {HTMLElement} */ (link).focus();
  }
}

/** Move the focus to a field by a shortcut; what is typed replaces what it holds. */
export function jump(identity) {
  const target = /** @type {HTMLInputElement} */ (document.getElementById(identity));
  if (document.activeElement !== target) origin = /** @type {HTMLElement} */ (document.activeElement);
  target.focus();
  target.select();
}

/** Give the focus back to where it was before the shortcut. */
export function back() {
  const target = origin?.isConnected && origin !== document.body ? origin : document.getElementById("main");
  origin = null;
  target?.focus();
}

/** The page of this path was left by going back. */
export function returned(pathname) {
  left = pathname;
}

addEventListener("keydown", () => (left = ""), true);
addEventListener("pointerdown", () => (left = ""), true);
