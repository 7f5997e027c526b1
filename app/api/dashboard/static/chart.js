// @ts-check
/** Step charts by uPlot, which draws on a canvas; the same numbers stand in a table below. */

class StepChart extends HTMLElement {
  /** @param {{name: string, points: [number, number, number|null][]}[]} lines */
  show(lines, last) {
    this.lines = lines;
    this.last = last;
    if (!this.observed) {
      this.observed = new ResizeObserver(() => this.draw());
      this.observed.observe(this);
    }
    const key = JSON.stringify([lines, last, this.clientWidth]);
    if (key === this.key) return;
    this.key = key;
    this.draw();
  }

  draw() {
    if (!this.lines?.length || !this.clientWidth) return;
    const offsets = [...new Set([...this.lines.flatMap((line) => line.points.map((point) => point[0])), this.last])].sort((one, other) => one - other);
    const series = this.lines.map((line) => {
      let at = 0;
      let value = null;
      return offsets.map((offset) => {
        while (at < line.points.length && line.points[at][0] <= offset) value = line.points[at++][2];
        return value;
      });
    });
    const style = getComputedStyle(this);
    const colour = (name) => style.getPropertyValue(name).trim();
    const colours = ["--line-1", "--line-2", "--line-3", "--line-4"].map(colour);
    // @ts-ignore: a classic script defines it.
    const U = globalThis.uPlot;
    const stepped = U.paths.stepped({ align: 1 });
    const numbered = inks(this.lines);
    this.chart?.destroy();
    this.chart = new U({
      width: this.clientWidth,
      height: 220,
      scales: { x: { time: false } },
      legend: { show: false },
      axes: [
        { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, values: (_, splits) => splits.map((value) => value.toLocaleString("en")) },
        { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000] },
      ],
      series: [
        { label: "offset" },
        ...this.lines.map((line, index) => {
          const wanted = dashed(line);
          return { label: line.name, stroke: colours[numbered[index] - 1], width: wanted ? 1 : 2, dash: wanted ? [5, 4] : [], paths: stepped, points: { show: false } };
        }),
      ],
    }, [offsets, ...series], this);
  }
}

customElements.define("step-chart", StepChart);

/** Whether the line is what is wanted, beside what there is. */
export function dashed(line) {
  return /(^| )(desired|minimum)$/.test(line.name);
}

/** For each line the number of its colour, as the chart chooses it. */
export function inks(lines) {
  const domains = [...new Set(lines.map((line) => line.name.replace(/ (placed|desired)$/, "")))];
  return lines.map((line) => (domains.indexOf(line.name.replace(/ (placed|desired)$/, "")) % 4) + 1);
}

/** Give the chart with the id its lines, after the page was drawn. */
export function draw(id, lines, last) {
  queueMicrotask(() => {
    const found = document.getElementById(id);
    if (found instanceof StepChart) found.show(lines, last);
  });
}
