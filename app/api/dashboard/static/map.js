// @ts-check
/** The map: a canvas in a grid whose active cell has the text of the current node, for keyboards and readers. */
import { html } from "../vendor/lit-html-3.3.3/lit-html.js";
import { arrange, hit, neighbour } from "./layout.js";
import { cell, colours, Drawing, tokens } from "./palette.js";
import { number } from "./format.js";

/** In place of a value, that nodes have none of the label: no label has this value. */
export const UNLABELLED = "-";

/** The values of a domain and of those around it, from the widest on. */
export function valuesOf(domains, index) {
  const [value, parent] = domains[index];
  return [...(parent < 0 ? [] : valuesOf(domains, parent)), value || UNLABELLED];
}

const latest = { picture: null, around: null, placed: null };

/**
 * The picture of a moment with its cells where another one, of more nodes, has them: nothing moves. As it is if the
 * other one does not have all of its nodes.
 */
export function placed(picture, around) {
  if (latest.picture !== picture || latest.around !== around) {
    const letters = new Map(picture.nodes.map((name, index) => [name, picture.values[index]]));
    const { nodes, domains } = around;
    const all = nodes.filter((name) => letters.has(name)).length === letters.size;
    const values = nodes.map((name) => letters.get(name) ?? "-").join("");
    Object.assign(latest, { picture, around, placed: all ? { ...picture, layout: around.layout, nodes, domains, values } : picture });
  }
  return latest.placed;
}

class ClusterMap extends Drawing {
  picture = null;
  current = 0;
  /** @type {import("./layout.js").Layout|null} */
  arranged = null;
  key = "";
  /** Read when it changes: reading it while the slider is dragged would lay the page out once more. */
  width = 0;
  /** What is on the canvas, and the colours of it; null if all has to be drawn. */
  drawn = null;

  connectedCallback() {
    super.connectedCallback();
    if (this.canvas) return;
    this.setAttribute("role", "grid");
    this.setAttribute("tabindex", "0");
    this.setAttribute("aria-label", "Map of the nodes. Arrow keys move, brackets move by domain, Enter opens the node, Shift and Enter its domain.");
    this.canvas = document.createElement("canvas");
    const row = document.createElement("div");
    row.setAttribute("role", "row");
    row.className = "reader";
    [this.cell, this.spare] = ["one", "other"].map((name) => {
      const made = document.createElement("div");
      made.setAttribute("role", "gridcell");
      made.id = `${this.id || "map"}-${name}`;
      return made;
    });
    this.spare.hidden = true;
    row.append(this.cell, this.spare);
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.tip.setAttribute("aria-hidden", "true");
    this.append(this.canvas, row, this.tip);
    this.setAttribute("aria-activedescendant", this.cell.id);
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("click", (event) => {
      const found = this.under(event);
      if (found < 0) return this.openDomain(this.around(event));
      this.choose(found);
      return this.open();
    });
    this.addEventListener("keydown", (event) => this.key_(event));
    this.addEventListener("focus", () => this.draw());
    this.addEventListener("blur", () => this.draw());
    new ResizeObserver(([entry]) => {
      this.width = entry.contentRect.width;
      this.show(this.picture);
    }).observe(this);
  }

  /** Show a picture; the layout is made again only if the nodes or the size have changed. */
  show(picture) {
    this.picture = picture;
    this.width ||= this.clientWidth;
    if (!picture || !this.isConnected || !this.width) return;
    const { nodes, domains } = picture;
    this.nodes = nodes;
    this.domains = domains;
    const key = `${picture.layout} ${this.width}`;
    if (key !== this.key) {
      this.key = key;
      this.drawn = null;
      this.arranged = arrange(domains, nodes.length, this.width, Math.max(260, Math.min(560, innerHeight - 320)));
      this.places = new Map(nodes.map((name, index) => [name, index]));
      this.canvas.style.height = `${this.arranged.height}px`;
    }
    this.current = Math.min(this.current, Math.max(0, nodes.length - 1));
    this.read();
    this.redraw();
  }

  /** Draw the cells whose class differs from what is drawn; all if more than classes has changed. */
  redraw() {
    const { drawn, picture } = this;
    const kinds = JSON.stringify(picture.classes.map(({ letter, label }) => [letter, label]));
    const ratio = devicePixelRatio || 1;
    if (!drawn || drawn.focused || drawn.kinds !== kinds || drawn.ratio !== ratio || !Number.isInteger(ratio)) return this.draw();
    const { size, at } = this.arranged;
    const context = this.canvas.getContext("2d");
    for (let index = 0; index < picture.values.length; index += 1) {
      if (picture.values[index] === drawn.values[index]) continue;
      context.clearRect(at[2 * index], at[2 * index + 1], size, size);
      this.cellOf(context, index);
    }
    drawn.values = picture.values;
    this.dataset.drawn = picture.values;
    return undefined;
  }

  cellOf(context, index) {
    const { arranged, drawn } = this;
    const x = arranged.at[2 * index];
    const y = arranged.at[2 * index + 1];
    const found = drawn.classes.get(this.picture.values[index]);
    if (found) return cell(context, x, y, arranged.size, found.colour, found.mark, drawn.ink, drawn.edge);
    context.strokeStyle = drawn.line;
    context.lineWidth = 1;
    return context.strokeRect(x + 0.5, y + 0.5, arranged.size - 1, arranged.size - 1);
  }

  draw() {
    const { picture, arranged, canvas } = this;
    if (!picture || !arranged) return;
    const ratio = devicePixelRatio || 1;
    const width = Math.max(1, Math.round(this.width * ratio));
    const height = Math.max(1, Math.round(arranged.height * ratio));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const colour = colours(this);
    const style = getComputedStyle(this);
    const token = (name) => style.getPropertyValue(name).trim();
    const [line, text, quiet] = ["--line", "--text", "--quiet"].map(token);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    context.strokeStyle = line;
    context.lineWidth = 1;
    for (const box of arranged.boxes) {
      context.strokeRect(Math.round(box.x) + 0.5, Math.round(box.y) + 0.5, Math.round(box.width) - 1, Math.round(box.height) - 1);
      if (!box.label) continue;
      context.fillStyle = box.depth ? quiet : text;
      context.fillText(fitted(context, box.label, box.width - 8), box.x + 5, box.y + 4);
    }
    this.drawn = {
      classes: new Map([...tokens(picture.classes)].map(([letter, { token: name, mark }]) => [letter, { colour: colour(name), mark }])),
      focused: document.activeElement === this && this.nodes.length > 0,
      edge: quiet,
      ink: token("--mark"),
      kinds: JSON.stringify(picture.classes.map(({ letter, label }) => [letter, label])),
      line,
      ratio,
      values: picture.values,
    };
    for (let index = 0; index < picture.values.length; index += 1) this.cellOf(context, index);
    if (this.drawn.focused) {
      context.strokeStyle = token("--focus");
      context.lineWidth = 2;
      context.strokeRect(arranged.at[2 * this.current] - 2, arranged.at[2 * this.current + 1] - 2, arranged.size + 4, arranged.size + 4);
    }
    this.dataset.drawn = picture.values;
  }

  label(index) {
    const letter = this.picture?.values[index];
    const found = this.picture?.classes.find((one) => one.letter === letter);
    return `${this.nodes[index]}: ${found ? found.label : "does not exist then"}${this.path(index)}`;
  }

  path(index) {
    const around = this.domains.filter(([, , first, count]) => index >= first && index < first + count).map(([value]) => value || "no label");
    return around.length ? `, in ${around.join(" / ")}` : "";
  }

  read() {
    const text = this.nodes.length ? this.label(this.current) : "no nodes";
    if (this.cell.textContent !== text) this.cell.textContent = text;
  }

  /** Another cell has the text of each node that is chosen: a screen reader speaks of what becomes active, not of text that changes. */
  choose(index) {
    this.current = index;
    [this.cell, this.spare] = [this.spare, this.cell];
    this.read();
    this.cell.hidden = false;
    this.spare.hidden = true;
    this.setAttribute("aria-activedescendant", this.cell.id);
    this.draw();
  }

  find(name) {
    const index = this.places?.get(name);
    if (index === undefined) return false;
    this.choose(index);
    this.focus();
    return true;
  }

  open() {
    this.dispatchEvent(new CustomEvent("node", { detail: this.nodes[this.current], bubbles: true }));
  }

  openDomain(index) {
    if (index >= 0) this.dispatchEvent(new CustomEvent("domain", { detail: valuesOf(this.domains, index), bubbles: true }));
  }

  /** The innermost domain of the current node. */
  inside() {
    return this.domains.findLastIndex(([, , first, count]) => this.current >= first && this.current < first + count);
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect();
    return hit(this.arranged, this.nodes.length, event.clientX - box.left, event.clientY - box.top);
  }

  /** The innermost domain under the pointer; -1 without one. */
  around(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return this.arranged.boxes.findLast((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height)?.domain ?? -1;
  }

  hover(event) {
    const found = this.under(event);
    this.tip.hidden = found < 0;
    if (found < 0) return;
    this.tip.textContent = this.label(found);
    const box = this.getBoundingClientRect();
    this.tip.style.left = `${Math.min(event.clientX - box.left + 12, Math.max(0, box.width - 260))}px`;
    this.tip.style.top = `${event.clientY - box.top + 16}px`;
  }

  key_(event) {
    if (!this.arranged || !this.nodes.length) return;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (moves[event.key]) this.choose(neighbour(this.arranged, this.nodes.length, this.current, ...moves[event.key]));
    else if (event.key === "]" || event.key === "[") this.choose(this.domain(event.key === "]" ? 1 : -1));
    else if (event.key === "Home") this.choose(0);
    else if (event.key === "End") this.choose(this.nodes.length - 1);
    else if (event.key === "Enter" && event.shiftKey) this.openDomain(this.inside());
    else if (event.key === "Enter") this.open();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  domain(direction) {
    const firsts = [...new Set(this.domains.map(([, , first]) => first))].sort((one, other) => one - other);
    if (!firsts.length) return this.current;
    if (direction > 0) return firsts.find((first) => first > this.current) ?? firsts[0];
    return firsts.findLast((first) => first < this.current) ?? firsts[firsts.length - 1];
  }
}

customElements.define("cluster-map", ClusterMap);

function fitted(context, text, available) {
  if (context.measureText(text).width <= available) return text;
  let cut = text;
  while (cut && context.measureText(`${cut}…`).width > available) cut = cut.slice(0, -1);
  return cut ? `${cut}…` : "";
}

class ClassSwatch extends Drawing {
  static observedAttributes = ["token", "mark"];

  connectedCallback() {
    super.connectedCallback();
    this.setAttribute("aria-hidden", "true");
    this.draw();
  }

  attributeChangedCallback() {
    this.draw();
  }

  draw() {
    if (!this.isConnected) return;
    this.canvas ??= this.appendChild(document.createElement("canvas"));
    Object.assign(this.canvas, { width: 28, height: 28 });
    const context = this.canvas.getContext("2d");
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.clearRect(0, 0, 14, 14);
    const style = getComputedStyle(this);
    const [ink, edge] = ["--mark", "--quiet"].map((name) => style.getPropertyValue(name).trim());
    cell(context, 1, 1, 12, colours(this)(this.getAttribute("token")), this.getAttribute("mark"), ink, edge);
  }
}

customElements.define("class-swatch", ClassSwatch);

/** The nodes with their classes, as rows of a CSV file. */
export function rows(picture) {
  const labels = new Map(picture.classes.map((one) => [one.letter, one.label]));
  return picture.nodes.map((name, index) => ({ node: name, class: labels.get(picture.values[index]) ?? "" }));
}

/** The classes with their numbers. */
export function legend(picture) {
  const found = tokens(picture.classes);
  const absent = picture.values.split("-").length - 1;
  return html`<ul class="legend" aria-label="Legend">
    ${picture.classes.map((one) => html`<li><class-swatch token=${found.get(one.letter).token} mark=${found.get(one.letter).mark}></class-swatch>
      <span>${one.label}</span> <b>${number(one.count)}</b></li>`)}
    ${absent ? html`<li><span>does not exist then</span> <b>${number(absent)}</b></li>` : ""}
  </ul>`;
}

/** The domains as a table with the numbers of their nodes by class; ``href``: the address of a domain by its values. */
export function table(picture, href) {
  const { domains, nodes } = picture;
  const rows = domains.length ? domains : [["all nodes", -1, 0, nodes.length]];
  const depth = (row) => (row[1] < 0 ? 0 : 1 + depth(domains[row[1]]));
  const named = (row, index) => (domains.length ? html`<a href=${href(valuesOf(domains, index))}>${row[0] || "(no label)"}</a>` : row[0]);
  const shown = picture.classes.filter((one) => one.count);
  return html`<div class="scroll"><table><thead><tr><th scope="col">domain</th><th scope="col" class="n">nodes</th>
    ${shown.map((one) => html`<th scope="col" class="n">${one.label}</th>`)}</tr></thead>
    <tbody>${rows.map((row, index) => {
      const part = picture.values.slice(row[2], row[2] + row[3]);
      return html`<tr><th scope="row" class="depth${depth(row)}">${named(row, index)}</th><td class="n">${number(row[3])}</td>
        ${shown.map((one) => html`<td class="n">${number(part.split(one.letter).length - 1)}</td>`)}</tr>`;
    })}</tbody></table></div>`;
}
