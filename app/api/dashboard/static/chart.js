// @ts-check
/** Step charts by uPlot, which draws on a canvas; a table below has the same numbers. */
import { Drawing } from "./palette.js";

class StepChart extends Drawing {
  disconnectedCallback() {
    super.disconnectedCallback();
    this.clear();
  }

  /** The window holds a chart until it is destroyed. */
  clear() {
    this.chart?.destroy();
    this.chart = null;
  }

  /** @param {{lines: {name: string, points: [number, number, number|null][]}[], marks: [number, number, string][], metadata: {last: number}}} body @param {number|null} shown the moment to mark */
  show({ lines, marks, metadata: { last } }, shown) {
    const same = lines === this.lines && last === this.last;
    Object.assign(this, { lines, last, marks, shown });
    if (!this.observed) {
      this.observed = new ResizeObserver(() => this.draw());
      this.observed.observe(this);
    }
    if (same && this.chart) this.mark();
    else this.draw();
  }

  /** Mark the moment: only this moves while the slider does. */
  mark() {
    if (!this.chart) return;
    this.line ??= Object.assign(document.createElement("div"), { className: "moment-line" });
    if (this.line.parentNode !== this.chart.over) this.chart.over.append(this.line);
    const { min, max } = this.chart.scales.x;
    this.line.hidden = this.shown === null || this.shown < min || this.shown > max;
    if (!this.line.hidden) this.line.style.left = `${this.chart.valToPos(this.shown, "x")}px`;
  }

  /** A line for each change of the object, which the table below names. */
  changes() {
    const [over, { min, max }] = [this.chart.over, this.chart.scales.x];
    over.querySelectorAll(".change-line").forEach((one) => one.remove());
    for (const [offset, , change] of this.marks.filter(([offset]) => offset >= min && offset <= max)) {
      const line = Object.assign(document.createElement("div"), { className: "change-line", title: `${change}, offset ${offset}` });
      line.style.left = `${this.chart.valToPos(offset, "x")}px`;
      over.append(line);
    }
  }

  draw() {
    // First: the lines of another moment do not stay where there are none.
    this.clear();
    if (!this.lines?.length || !this.clientWidth) return;
    const offsets = [...new Set([...this.lines.flatMap((line) => line.points.map((point) => point[0])), this.last])].sort((one, other) => one - other);
    const values = this.lines.map((line) => {
      let at = 0;
      let value = null;
      return offsets.map((offset) => {
        while (at < line.points.length && line.points[at][0] <= offset) value = line.points[at++][2];
        return value;
      });
    });
    // What is in flight is a part of what is placed: the shade lies between that and what is bound.
    const whole = this.lines.map((line) => placedOf(this.lines, line));
    const series = values.map((own, index) => whole[index] < 0 ? own
      : own.map((value, at) => value === null ? null : Math.max(0, values[whole[index]][at] - value)));
    const style = getComputedStyle(this);
    const colour = (name) => style.getPropertyValue(name).trim();
    const colours = ["--line-1", "--line-2", "--line-3", "--line-4"].map(colour);
    // @ts-ignore: a classic script defines it.
    const U = globalThis.uPlot;
    const stepped = U.paths.stepped({ align: 1 });
    const numbered = inks(this.lines);
    this.chart = new U({
      width: this.clientWidth,
      height: 220,
      scales: { x: { time: false } },
      legend: { show: false },
      // The first drawing is later than the chart.
      hooks: { draw: [() => this.mark(), () => this.chart && this.changes()] },
      axes: [
        { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, values: (_, splits) => splits.map((value) => value.toLocaleString("en")) },
        { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000] },
      ],
      series: [
        { label: "offset" },
        ...this.lines.map((line, index) => {
          if (whole[index] >= 0) return { label: line.name, width: 0, paths: stepped, points: { show: false } };
          const wanted = dashed(line);
          return { label: line.name, stroke: colours[numbered[index] - 1], width: wanted ? 1 : 2, dash: wanted ? [5, 4] : [], paths: stepped, points: { show: false } };
        }),
      ],
      bands: whole.flatMap((placed, index) => placed < 0 ? [] : [{ series: [placed + 1, index + 1], fill: translucent(colours[numbered[index] - 1]) }]),
    }, [offsets, ...series], this);
  }
}

customElements.define("step-chart", StepChart);

/** Whether the line is what is wanted, beside what there is. */
export function dashed(line) {
  return /(^| )(desired|minimum)$/.test(line.name);
}

/** The index of the line of what is placed, of which the line is the part in flight; -1 if it is no such line. */
function placedOf(lines, { name }) {
  return shaded({ name }) ? lines.findIndex((one) => one.name === name.replace(FLYING, " placed")) : -1;
}

const FLYING = / in flight$/;

/** Whether the line is drawn as a shade below the line of what is placed. */
export function shaded(line) {
  return FLYING.test(line.name);
}

function translucent(colour) {
  return `color-mix(in srgb, ${colour} 35%, transparent)`;
}

/** For each line the number of its colour, as the chart chooses it. */
export function inks(lines) {
  const domain = ({ name }) => name.replace(/ (placed|desired|in flight)$/, "");
  const domains = [...new Set(lines.map(domain))];
  return lines.map((line) => (domains.indexOf(domain(line)) % 4) + 1);
}

/** Give the chart with the id its lines, after the page was drawn. */
export function draw(id, body, shown) {
  queueMicrotask(() => {
    const found = document.getElementById(id);
    if (found instanceof StepChart) found.show(body, shown);
  });
}
