// @ts-check
/** The strip above the slider: events by kind, marks, hatching of what was not watched, and walls between incarnations. */
import { clock } from "./format.js";
import { Drawing } from "./palette.js";
import { begins } from "./walls.js";

/** The kinds of events, from the bottom up; the style sheet has a colour for each. */
export const KINDS = ["pods", "placements", "nodes", "others"];

/** The forms of the marks: those of the rarer kinds are drawn over those of changes. */
export const MARKS = [
  { sign: "▼", ink: "--text", holds: (kind) => kind === "change", form: triangle },
  { sign: "■", ink: "--focus", holds: (kind) => kind !== "change", form: (context, at) => context.fillRect(at - 3, 12, 6, 6) },
];

function triangle(context, at) {
  context.beginPath();
  context.moveTo(at - 3, 13);
  context.lineTo(at + 3, 13);
  context.lineTo(at, 18);
  context.fill();
}

/** What each form stands for, of the kinds of marks that there are. */
export function marked({ buckets }) {
  const kinds = [...new Set(buckets.flatMap((bucket) => Object.keys(bucket.marks)))].sort();
  return MARKS.map(({ sign, ink, holds }) => ({ sign, ink, names: kinds.filter(holds).join(", ") })).filter(({ names }) => names);
}

class TimeStrip extends Drawing {
  show(found, first, last, { A, B }) {
    // While the slider is dragged nothing of it changes.
    if (this.found === found && this.first === first && this.last === last && this.A === A && this.B === B) return;
    Object.assign(this, { found, first, last, A, B });
    if (!this.canvas) {
      this.canvas = this.appendChild(document.createElement("canvas"));
      new ResizeObserver(() => this.draw()).observe(this);
    }
    this.draw();
  }

  draw() {
    const { canvas, found, first, last, A, B } = this;
    if (!found || !this.clientWidth) return;
    const ratio = devicePixelRatio || 1;
    const width = this.clientWidth;
    const height = 40;
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(this);
    const colour = (name) => style.getPropertyValue(name).trim();
    const parts = KINDS.map((name) => [name, colour(`--axis-${name}`)]);
    const x = (offset) => ((offset - first) / Math.max(1, last - first)) * width;
    const kinds = (types) => {
      const sum = { pods: 0, nodes: 0, placements: 0, others: 0 };
      for (const [type, count] of Object.entries(types)) {
        sum[type.startsWith("Pod") ? "pods" : type.startsWith("Node") ? "nodes" : type.startsWith("Placement") ? "placements" : "others"] += count;
      }
      return sum;
    };
    for (const bucket of found.buckets) {
      let base = 40;
      const sums = kinds(bucket.types);
      const total = Math.max(1, bucket.last - bucket.first + 1);
      for (const [name, ink] of parts) {
        const part = (sums[name] / total) * 20;
        context.fillStyle = ink;
        context.fillRect(x(bucket.first - 1), base - part, Math.max(1, x(bucket.last) - x(bucket.first - 1)), part);
        base -= part;
      }
    }
    context.strokeStyle = colour("--class-bad");
    for (const gap of found.gaps) {
      const left = x(gap.from);
      const right = Math.max(left + 4, x(gap.to));
      context.save();
      context.beginPath();
      context.rect(left, 14, right - left, 26);
      context.clip();
      for (let at = left - 40; at < right; at += 5) {
        context.beginPath();
        context.moveTo(at, 40);
        context.lineTo(at + 40, 0);
        context.stroke();
      }
      context.restore();
    }
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "top";
    context.fillStyle = colour("--focus");
    for (const [name, offset] of Object.entries({ A, B })) {
      if (offset === null || offset < first || offset > last) continue;
      context.fillRect(x(offset) - 0.5, 12, 1, 28);
      context.fillText(name, x(offset) + 2, 10);
    }
    for (const { ink, holds, form } of MARKS) {
      context.fillStyle = colour(ink);
      let marked = -9;
      for (const bucket of found.buckets) {
        const at = (x(bucket.first) + x(bucket.last)) / 2;
        if (at - marked < 7 || !Object.keys(bucket.marks).some(holds)) continue;
        marked = at;
        form(context, at);
      }
    }
    context.fillStyle = colour("--quiet");
    let free = 0;
    for (const bucket of found.buckets) {
      const at = x(bucket.first - 1);
      if (at < free || at > width - 50) continue;
      context.fillText(clock(bucket.from), at + 2, 0);
      free = at + 120;
    }
    context.fillStyle = colour("--bad");
    if (begins(first)) context.fillRect(0, 0, 3, height);
    if (begins(last + 1)) context.fillRect(width - 3, 0, 3, height);
  }
}

customElements.define("time-strip", TimeStrip);
