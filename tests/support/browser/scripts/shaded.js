// Whether something is drawn half a pod below the line of what is placed in a domain, at the end of the chart.
const { chart } = document.getElementById("chart");
const placed = chart.data[chart.series.findIndex(({ label }) => label === `${arguments[0]} placed`)];
const [from, to] = chart.data[0].slice(-2);
const [x, y] = [chart.valToPos((from + to) / 2, "x", true), chart.valToPos(placed.at(-2) - 0.5, "y", true)];
// Wider than a line of the grid.
const { data } = chart.ctx.getImageData(Math.round(x) - 2, Math.round(y), 5, 1);
return [3, 7, 11, 15, 19].every((alpha) => data[alpha] > 0);
