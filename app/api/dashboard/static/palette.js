// @ts-check
/** The colour and the mark of each class of nodes: never by colour alone. */

const TOKENS = {
  "no pods": "empty",
  "less than half in use": "low",
  "half in use or more": "high",
  full: "full",
  cordoned: "cordoned",
  "not ready": "bad",
  "not offered": "none",
  unused: "empty",
  "under 25 %": "low",
  "under 50 %": "mid",
  "under 75 %": "high",
  "under 100 %": "higher",
  "used up": "full",
  "no quota here": "none",
  empty: "empty",
  "under half": "low",
  "half or more": "high",
  over: "over",
  "the same": "none",
  less: "low",
  more: "full",
  gone: "bad",
  new: "chosen",
};
/** The colour and the mark of each class without a look, in order: the marks differ, as there are fewer colours. */
const REFUSED = [["refused1", "stripe"], ["refused2", "cross"], ["refused3", "dot"], ["refused4", "chevron"], ["refused1", "plus"], ["refused2", "backslash"], ["refused3", "bar"], ["refused4", "post"]];
/** Marks by class; those of the scale from low to full fill the cell from the bottom, by so many parts of five. The pale class has an edge, so that it is seen on its background. */
const MARKS = { empty: "edge", low: "level1", mid: "level2", high: "level3", higher: "level4", full: "stripe", cordoned: "hollow", bad: "cross", over: "dot", chosen: "ring", kept: "corner" };

const [RISING, FALLING, LEVEL, UPRIGHT] = [[[0.2, 0.8], [0.8, 0.2]], [[0.2, 0.2], [0.8, 0.8]], [[0.2, 0.5], [0.8, 0.5]], [[0.5, 0.2], [0.5, 0.8]]];
/** The lines of the marks that are drawn with some, in parts of the cell. */
const LINES = {
  stripe: [RISING],
  backslash: [FALLING],
  cross: [RISING, FALLING],
  bar: [LEVEL],
  post: [UPRIGHT],
  plus: [LEVEL, UPRIGHT],
  chevron: [[[0.2, 0.75], [0.5, 0.25], [0.8, 0.75]]],
  corner: [[[0.2, 0.2], [0.2, 0.8], [0.8, 0.8]]],
  ring: [[[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75], [0.25, 0.25]]],
};

/** @param {{letter: string, label: string, look?: string}[]} classes @returns {Map<string, {token: string, mark: string}>} */
export function tokens(classes) {
  let refused = 0;
  return new Map(
    classes.map(({ letter, label, look }) => {
      const known = look || TOKENS[label];
      const [token, mark] = known ? [known, MARKS[known] ?? ""] : REFUSED[refused++ % REFUSED.length];
      return [letter, { token, mark }];
    }),
  );
}

/** The colours of the present scheme, from the style sheet. */
export function colours(element) {
  const style = getComputedStyle(element);
  return (token) => style.getPropertyValue(`--class-${token}`).trim() || style.color;
}

/** The drawings on the page. One that left it must be held by nothing, so that its canvas is freed. */
const drawings = new Set();
for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
  matchMedia(query).addEventListener("change", () => drawings.forEach((one) => one.draw()));
}

/** An element whose `draw` draws it: once more when the scheme changes, and with it the colours of the style sheet. */
export class Drawing extends HTMLElement {
  connectedCallback() {
    drawings.add(this);
  }

  disconnectedCallback() {
    drawings.delete(this);
  }
}

/** Draw one cell with its mark; marks need space. */
export function cell(context, x, y, size, colour, mark, ink, edge) {
  context.fillStyle = colour;
  if (mark === "hollow") {
    const width = Math.max(1, Math.round(size / 5));
    context.fillRect(x, y, size, size);
    context.clearRect(x + width, y + width, size - 2 * width, size - 2 * width);
    return;
  }
  context.fillRect(x, y, size, size);
  if (mark === "edge") {
    context.strokeStyle = edge;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    return;
  }
  if (size < 8 || !mark) return;
  context.strokeStyle = context.fillStyle = ink;
  if (mark.startsWith("level")) {
    const height = (Number(mark.slice(5)) * size * 0.6) / 4;
    context.fillRect(x + size * 0.3, y + size * 0.8 - height, size * 0.4, height);
    return;
  }
  context.lineWidth = Math.max(1, size / 10);
  context.beginPath();
  if (mark === "dot") {
    context.arc(x + size / 2, y + size / 2, size / 5, 0, 7);
    context.fill();
    return;
  }
  for (const [first, ...others] of LINES[mark]) {
    context.moveTo(x + first[0] * size, y + first[1] * size);
    for (const [right, down] of others) context.lineTo(x + right * size, y + down * size);
  }
  context.stroke();
}
